"""Choices, and scattering."""

import numpy as np
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.controlflow import Select as TensorSelect
from tf2onnx.onnx_opset.tensor import ScatterND


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
