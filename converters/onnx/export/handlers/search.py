"""Choices."""

from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.controlflow import Select as TensorSelect


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
