"""Traces a model on either backend, and finds the marked layers that its outputs come from."""

from collections.abc import Iterable

import keras
import numpy as np

from tfmp.precision.layer_tree import LayerNode, is_graph, only_moves_values
from tfmp.precision.tracing.jax_graph import JaxMarks, trace_jax
from tfmp.precision.tracing.tensorflow_graph import TensorFlowMarks, trace_tensorflow
from tfmp.precision.tracing.traced_graph import Graph, Inputs, Marks, Traceable


def new_marks() -> Marks:
    """Marks for a trace on this backend."""
    return JaxMarks() if keras.backend.backend() == "jax" else TensorFlowMarks()


def trace(
    function: Traceable,
    inputs: Inputs,
    marks: Marks,
    variables: Iterable[keras.Variable] = (),
) -> Graph:
    """Traces a function of a model's keyword and positional arguments.

    Args:
        function: called once, with traced tensors; it marks some of them.
        inputs: the shapes and dtypes of these tensors.
        marks: where the function marks them.
        variables: those of the model, whose values are no constants.
    """
    with np.errstate(over="ignore"):  # constants past 65504 are what the trace is for
        if isinstance(marks, TensorFlowMarks):
            return trace_tensorflow(function, inputs, marks)
        return trace_jax(function, inputs, variables)


def producers(graph: Graph, root: LayerNode, through: int | None = None) -> frozenset[int]:
    """The layers that compute a traced model's outputs, by id.

    A container counts if its own code has operations between its layers and the output. The walk
    goes on `through` a layer, by id, that returned its argument as it was.
    """
    nodes = {id(node.layer): node for node in root.within()}
    found: set[int] = set()
    pending = [(output, root) for output in graph.outputs]
    seen = set()
    while pending:
        tensor, container = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        origin = graph.origin(tensor)
        found |= {key for key in origin.inside if key in nodes and nodes[key].head is None}
        node = nodes.get(origin.layer) if origin.layer is not None else None
        if node is None:
            if origin.is_operation and origin.sources and not is_graph(container.layer):
                found.add(id(container.layer))
        elif any(child.head is None for child in node.children):
            container = node
        elif origin.layer != through:
            found.add(id(node.layer))
            if not only_moves_values(node.layer):
                continue
        pending.extend((source, container) for source in origin.sources)
    return frozenset(found)
