"""Takes out of loops the states that no step changes, such as weights: bodies read them directly.

TensorFlow hands all that a loop reads through it as states, and tf2onnx keeps them so. OpenVINO
refuses bodies that return an input of theirs, and no runtime can prepare weights that are states.
"""

import onnx_ir as ir

from tfmp.converters.onnx.graph import bodies_of

# Inputs of a Loop and of its body before the states: the steps' number or count, and the condition.
_BEFORE_STATES = 2


def release_constant_states(graph: ir.Graph) -> None:
    """Lets the bodies of all loops, inner ones first, read unchanged states from outside."""
    for node in list(graph):
        for _, body in bodies_of(node):
            release_constant_states(body)
        if node.op_type == "Loop" and node.domain == "":
            _release(graph, node)


def _release(graph: ir.Graph, loop: ir.Node) -> None:
    body = loop.attributes["body"].as_graph()
    constant = _constant_states(loop, body)
    if not constant:
        return
    states = len(loop.inputs) - _BEFORE_STATES
    kept = [state for state in range(states) if state not in constant]
    results = [*kept, *range(states, len(loop.outputs))]  # those of each step come last
    arguments, returned = list(body.inputs), list(body.outputs)
    body.outputs[:] = [returned[0], *(returned[1 + result] for result in results)]
    for state in constant:
        outside = loop.inputs[_BEFORE_STATES + state]
        arguments[_BEFORE_STATES + state].replace_all_uses_with(outside)
        loop.outputs[state].replace_all_uses_with(outside)
    body.inputs[:] = [
        *arguments[:_BEFORE_STATES],
        *(arguments[_BEFORE_STATES + state] for state in kept),
    ]
    smaller = ir.Node(
        "",
        "Loop",
        [*loop.inputs[:_BEFORE_STATES], *(loop.inputs[_BEFORE_STATES + state] for state in kept)],
        list(loop.attributes.values()),
        num_outputs=len(results),
        name=loop.name,
    )
    for old, new in zip((loop.outputs[result] for result in results), smaller.outputs, strict=True):
        new.name, new.type, new.shape = old.name, old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.insert_before(loop, smaller)
    graph.remove(loop, safe=True)


def _constant_states(loop: ir.Node, body: ir.Graph) -> list[int]:
    """The states that the body returns as it got them, and nothing else of it returns."""
    found = []
    for state, argument in enumerate(body.inputs[_BEFORE_STATES:]):
        returned = body.outputs[1 + state]
        once = sum(value is argument for value in body.outputs) == 1
        if returned is argument and once and not loop.outputs[state].is_graph_output():
            found.append(state)
    return found
