"""Mends two passes of tf2onnx, of which one is left out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tf2onnx import tfonnx
from tf2onnx.graph import Graph, Node
from tf2onnx.optimizer import back_to_back_optimizer

_RESHAPES = ("Reshape",)


@contextmanager
def mended() -> Iterator[None]:
    """Keeps tf2onnx from two mistakes.

    It makes a Gemm of a product and a sum even where the sum's other operand has more axes, or a
    factor is no number: it then fails, or writes an invalid Gemm. Runtimes fuse both themselves.
    And it takes out a Reshape before one that keeps sizes of it.
    """
    handlers = back_to_back_optimizer._func_map
    rewrite, merge = tfonnx.rewrite_gemm, handlers[_RESHAPES]
    tfonnx.rewrite_gemm = lambda graph, nodes: nodes
    handlers[_RESHAPES] = partial(_merge_reshapes, merge)
    try:
        yield
    finally:
        tfonnx.rewrite_gemm, handlers[_RESHAPES] = rewrite, merge


def _merge_reshapes(
    merge: Callable[..., list[Node]], graph: Graph, node: Node, readers: list[Node]
) -> list[Node]:
    for shape in (reader.inputs[1] for reader in readers):
        if shape.is_const() and 0 in shape.get_tensor_value():  # the size of what is read
            return []
    return merge(graph, node, readers)
