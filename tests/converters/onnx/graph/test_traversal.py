"""Nodes, bodies and names of a graph, and what nothing reads in it."""

import onnx_ir as ir
from onnx_graphs import parse

from tfmp.converters.onnx.graph.traversal import UniqueNames, nodes_of, remove_unused

NESTED = """
agraph (float[4] x, bool c) => (float[4] y) <float[4] w = {1, 2, 3, 4}, float[1] idle = {1}> {
    first = Neg(x)
    y = If (c) <
        then_branch = yes () => (float[4] t) {
            t = If (c) <
                then_branch = inner () => (float[4] a) { a = Add(first, w) },
                else_branch = outer () => (float[4] b) { b = Sub(first, w) }
            >
        },
        else_branch = no () => (float[4] e) { dead = Exp(x)  e = Relu(first) }
    >
}
"""


def nested() -> ir.Model:
    return ir.from_proto(parse(NESTED))


def test_a_unique_name_is_none_of_any_body_input_or_initializer():
    unique = UniqueNames(nested())
    for taken in ("x", "w", "first", "a", "e"):
        assert unique(taken) == f"{taken}_2"
        assert unique(taken) == f"{taken}_3"
    assert unique("free") == "free"
    assert unique("free") == "free_2"


def test_what_nothing_reads_goes_in_bodies_too():
    model = nested()
    remove_unused(model)
    assert "Exp" not in [node.op_type for node in nodes_of(model.graph)]
    assert list(model.graph.initializers) == ["w"]


def test_outputs_and_inputs_that_are_left_out_go():
    model = ir.from_proto(
        parse("""
    agraph (float[1, 1, 4] x) => (float[1, 1, 2] y) {
        y, places = MaxPool <kernel_shape = [2], strides = [2]> (x)
    }
    """)
    )
    node = model.graph[0]
    node.resize_inputs(2)
    remove_unused(model)
    assert (len(node.inputs), len(node.outputs)) == (1, 1)
