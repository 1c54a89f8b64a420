"""Tables, choices, and scattering."""

import numpy as np
from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.controlflow import Select as TensorSelect
from tf2onnx.onnx_opset.tensor import ScatterND

from tfmp.converters.onnx.export.handlers.building import Builder, handler


@tf_op(["Select", "SelectV2"])
class Select(TensorSelect):
    """A choice as Where; tf2onnx adds products with zeros and ones, and 0 * infinity is not 0.

    The side that a model does not select is often the one that it guards against: a division by
    zero.
    """

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        node.set_attr("handles_nan", 1)
        super().version_9(ctx, node, **kwargs)


@handler("LookupTableFindV2", opset=13)
def lookup(b: Builder, node: Node) -> None:
    """The value beside a key in a table; tf2onnx knows tables with strings on one side only."""
    table = node.inputs[0]
    keys, values = b.tables[table.get_attr_value("shared_name")]
    default = node.inputs[2]
    if not default.is_const():
        raise ValueError("a lookup needs a constant default")
    found = b.op(
        "LabelEncoder",
        b.cast(node.input[1], TensorProto.INT64),
        domain="ai.onnx.ml",
        keys_int64s=keys.astype(np.int64),
        values_int64s=values.astype(np.int64),
        default_int64=int(default.get_tensor_value(as_list=False)),
    )
    b.finish("Cast", found, to=b.graph.get_dtype(node.output[0]))
    b.graph.remove_node(table.name)


@tf_op("ScatterNd", onnx_op="ScatterND")
class ScatterAdd(ScatterND):
    """Values by index into zeros, added up where an index comes twice; tf2onnx keeps the last."""

    @classmethod
    def version_16(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        indices = node.inputs[0]
        super().version_11(ctx, node, **kwargs)
        if not (indices.is_const() and cls._once_each(indices.get_tensor_value(as_list=False))):
            node.set_attr("reduction", "add")

    @staticmethod
    def _once_each(indices: np.ndarray) -> bool:
        rows = indices.reshape(-1, indices.shape[-1])
        return len(np.unique(rows, axis=0)) == len(rows)
