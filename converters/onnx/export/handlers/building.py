"""Short words for building ONNX nodes inside a tf2onnx graph."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.utils import make_name, map_onnx_to_numpy_type

# What an attribute of an ONNX node may be.
Attribute: TypeAlias = int | float | str | list[int] | np.ndarray | TensorProto


class Builder:
    """Makes nodes beside the TensorFlow node that is being replaced.

    Attributes:
        graph: tf2onnx's.
        node: TensorFlow's.
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    def const(self, value: ArrayLike, dtype: DTypeLike | None = None) -> str:
        """A constant; the default dtype of floats is the dtype of the node's first input."""
        if dtype is None:
            dtype = map_onnx_to_numpy_type(self.graph.get_dtype(self.node.input[0]))
        array = np.asarray(value, dtype=dtype)
        return self.graph.make_const(make_name(f"{self.node.name}_const"), array).output[0]

    def op(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """A node with one output; returns its name."""
        name = make_name(f"{self.node.name}_{op_type}")
        made = self.graph.make_node(op_type, list(inputs), attr=attributes or None, name=name)
        return made.output[0]

    def cast(self, value: str, dtype: int) -> str:
        """A Cast to an ONNX dtype."""
        return self.op("Cast", value, to=dtype)

    def finish(self, op_type: str, *inputs: str, **attributes: Attribute) -> None:
        """Replaces the TensorFlow node by a node that makes its output."""
        node, shapes, dtypes = self.node, self.node.output_shapes, self.node.output_dtypes
        self.graph.remove_node(node.name)
        self.graph.make_node(
            op_type,
            list(inputs),
            attr=attributes or None,
            name=node.name,
            outputs=node.output,
            shapes=shapes,
            dtypes=dtypes,
        )


# Replaces a TensorFlow node; given what to build with, and the node.
Build = Callable[[Builder, Node], None]


def handler(*ops: str, opset: int) -> Callable[[Build], Build]:
    """Registers a function with tf2onnx that replaces TensorFlow nodes of these types.

    Args:
        *ops: TensorFlow's names of the ops.
        opset: the first ONNX opset that has the ops that the function builds.
    """

    def register(build: Build) -> Build:
        def convert(graph: Graph, node: Node, **_: object) -> None:
            build(Builder(graph, node), node)

        tf_op(list(ops)).register_compat_handler(convert, opset)
        return build

    return register
