"""Runs tf2onnx's passes over a graph without the walk that takes most of their time.

After every transpose that it moved, tf2onnx begins with the first node again. And one rewriter is
left out.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tf2onnx import optimizer, tfonnx
from tf2onnx.graph import Graph, Node
from tf2onnx.optimizer import back_to_back_optimizer, transpose_optimizer


def optimize(graph: Graph, catch_errors: bool) -> Graph:
    """Runs the passes in tf2onnx's order until no pass finds anything to do; gives the graph."""
    passes = {**optimizer._get_optimizers(), "optimize_transpose": _TransposeOptimizer}
    return optimizer.optimize_graph(graph, catch_errors, passes)


class _TransposeOptimizer(transpose_optimizer.TransposeOptimizer):
    """tf2onnx's optimizer, which here goes on behind a transpose that it has moved."""

    def _optimize_at_current_graph_level(self, graph: Graph) -> Graph:
        self._g = graph
        self.pre_optimize_action()
        acted = True
        while acted:
            acted = False
            self._force_stop: dict[str, int] = {}
            for node in list(self.nodes):
                if graph.get_node_by_name(node.name) is not node:
                    continue  # gone meanwhile
                if not transpose_optimizer.is_transpose(node):
                    continue
                if self._handle_nhwc_tranpose(node):
                    self.graph_been_opt = acted = True
                elif transpose_optimizer.is_useless_transpose(node):
                    self._remove_useless_tranpose(node)
                    acted = True
            if self._force_stop.get("stop"):
                break
        self.merge_duplicated_transposes()
        self.post_optimize_action()
        return graph


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
