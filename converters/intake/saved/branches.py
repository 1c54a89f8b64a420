"""Branches: choices among many as choices between two, which ONNX and TFLite have, and returns."""

from collections.abc import Iterator
from contextlib import contextmanager

from tfmp.converters.intake.saved.graph import Filling, Graph, Node, Rewrite, inserted
from tfmp.converters.shared.frameworks import GraphDef
from tfmp.shared.backend import Tensor

CASES = ("Case", "StatelessCase")


@contextmanager
def choices_kept() -> Iterator[None]:
    """While it lasts, TensorFlow keeps a Case whole, as it does an If where it is asked to."""
    from tensorflow.python.framework import convert_to_constants

    kept = convert_to_constants._CONTROL_FLOW_OPS
    convert_to_constants._CONTROL_FLOW_OPS = {*kept, *CASES}
    try:
        yield
    finally:
        convert_to_constants._CONTROL_FLOW_OPS = kept


def two_by_two(node: Node, graph: Graph, fill: Rewrite) -> Filling:
    """A Case as a choice between its first branch and the rest, which chooses likewise.

    As in a Case, an index beyond the branches means the last branch.

    Args:
        node: the Case.
        graph: the graph that holds it.
        fill: applied to the branches.
    """
    import tensorflow as tf

    bodies = [graph.bodies[one.name] for one in node.attributes["branches"].list.func]

    def chosen(index: Tensor, *operands: Tensor) -> list[Tensor]:
        def called(place: int) -> list[Tensor]:
            current = tf.compat.v1.get_default_graph()
            return inserted(bodies[place], [*map(current.capture, operands)], fill)

        def from_here(place: int) -> list[Tensor]:
            if place == len(bodies) - 1:
                return called(place)
            here = tf.equal(index, place)
            return tf.cond(here, lambda: called(place), lambda: from_here(place + 1))

        return from_here(0)

    return chosen


def mend_returns(graph_def: GraphDef) -> None:
    """Lets functions return the constants that took the place of variables.

    TensorFlow renames what nodes read, and forgets a function that returns the variable itself, as
    the branch of a batch normalization does that chooses its statistics by a placeholder.
    """
    for function in graph_def.library.function:
        kinds = {node.name: node.op for node in function.node_def}
        for name, place in function.ret.items():
            source, _, output = place.partition(":")
            if output == "value:0" and kinds.get(source) == "Identity":
                function.ret[name] = f"{source}:output:0"
