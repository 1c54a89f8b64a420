"""Variables that a function writes, as inputs and outputs of a function without variables.

A streaming model keeps the end of one block for the beginning of the next. Files keep nothing
between calls: the caller hands the states in, and gets the new ones back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tfmp.converters.intake.saved.graph import Edits, Graph
from tfmp.converters.intake.saved.held import Held, any_writes, captured
from tfmp.converters.intake.saved.retracing import Retracing, Value
from tfmp.converters.shared.frameworks import TfFunction, Variable
from tfmp.converters.shared.tensors import TensorSpec, unique_name
from tfmp.shared.backend import Tensor

# Types that a policy such as mixed_float16 leaves in a graph (tensorflow.DataType). The weights of
# such a model are float32 already, and which tensors may be FP16 in a file is not the training's to
# say.
_HALVES = {14: "bfloat16", 19: "float16"}


@dataclass(frozen=True)
class VariableState:
    """A variable that each call changes.

    Attributes:
        spec: its name as an input, its shape and its dtype.
        value: its value when the model was loaded.
    """

    spec: TensorSpec
    value: np.ndarray


class Inlined:
    """A concrete function without functions that it calls, and without variables that it writes.

    Its states are arguments and results. Keras 2 marks the functions of its recurrent layers, and
    TensorFlow's TFLite converter makes operators of these that LiteRT cannot run. In line they are
    operations like any others.

    Attributes:
        arguments: names of the graph's inputs that are arguments of the function.
        states: the variables that it writes.
        variables: all that it reads or writes.
        notes: changes that were made to it, for the report.
    """

    def __init__(self, function: TfFunction) -> None:
        """Looks for the variables that a function writes.

        Raises:
            ConversionError: it changes a part of one.
        """
        import tensorflow as tf

        outside = {inside.name for _, inside in function.graph.captures}
        given = [tensor for tensor in function.inputs if tensor.name not in outside]
        self.arguments = [tensor.name.partition(":")[0] for tensor in given]
        self._function, self._graph = function, Graph(function, len(function.inputs))
        self._own = _of_references(function, self._graph)
        self.variables = (*function.variables, *self._own.values())
        self._written: list[str] = []
        self._narrow: tuple[int, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._waits = any_writes(self._graph)
        if self._waits:
            specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in given]
            tf.compat.v1.wrap_function(self._rehearsed, specs)
        elif kinds := _halves(self._graph):
            self._narrow = (*_HALVES,)
            told = ", ".join(sorted(kinds))
            self.notes = (f"its graph computes in {told}: converted in float32",)
        handles = {id(variable.handle): variable for variable in function.variables}
        known = {inside.name: handles.get(id(one)) for one, inside in function.graph.captures}
        self.states = tuple(_states(known[key] for key in known if key in self._written))

    def _rehearsed(self, *tensors: Tensor) -> list[Tensor]:
        """Traces the function to see which variables it writes."""
        retracing, given = self._retracing(dict(zip(self.arguments, tensors, strict=True)))
        results = retracing.main(self._graph, given)
        self._written += [name for name in given if name in retracing.written]
        return results

    def _retracing(self, arguments: Mapping[str, Tensor]) -> tuple[Retracing, dict[str, Value]]:
        import tensorflow as tf

        current = tf.compat.v1.get_default_graph()
        read = {name for node in self._graph.nodes for name in node.inputs}
        given = captured(self._function, read | {*self._graph.outputs})
        for name, own in self._own.items():
            current.watch_variable(own)
            given[name] = Held(name, own.name, own.dtype, current.capture(own.handle))
        given |= {f"{name}:0": arguments[name] for name in self.arguments}
        return Retracing(self._graph.bodies, Edits(self._narrow), self._waits), given

    def __call__(
        self, arguments: Mapping[str, Tensor], states: Iterable[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Adds the function to the graph that is being traced: its results, and the new states.

        Arguments come by the names in `arguments`; states, and results, in their own order.
        """
        retracing, given = self._retracing(arguments)
        held = [one for name in self._written if isinstance(one := given[name], Held)]
        for one, state in zip(held, states, strict=True):
            one.value = state
        results = retracing.main(self._graph, given)
        return results, [one.value for one in held]


def _halves(graph: Graph) -> set[str]:
    """The types of 16 bits that a graph computes in."""
    nodes = [node for one in (graph, *graph.bodies.values()) for node in one.nodes]
    attributes = [one for node in nodes for one in node.attributes.values()]
    kinds = {kind for one in attributes for kind in (one.type, *one.list.type)}
    return {_HALVES[kind] for kind in kinds & _HALVES.keys()}


def _of_references(function: TfFunction, graph: Graph) -> dict[str, Variable]:
    """Variables with the values of TF1's reference variables, by the tensors that these are."""
    import tensorflow as tf

    nodes = [node for node in graph.nodes if node.op in ("Variable", "VariableV2")]
    if not nodes:
        return {}
    with function.graph.as_default() as own:
        read = [tf.identity(own.get_tensor_by_name(node.outputs[0])) for node in nodes]
    values = function.prune([], read)()
    return {
        node.outputs[0]: tf.Variable(value, name=node.name)
        for node, value in zip(nodes, values, strict=True)
    }


def _states(variables: Iterable[Variable]) -> Iterable[VariableState]:
    taken: set[str] = set()
    for variable in variables:
        plain = variable.name.partition(":")[0]
        folder, _, last = plain.rpartition("/")
        # Keras names a state that it was given no name for like any other variable.
        name = unique_name(f"{folder}/state" if folder and last == "Variable" else plain, taken)
        taken.add(name)
        spec = TensorSpec(name, tuple(variable.shape.as_list()), variable.dtype.name)
        yield VariableState(spec, variable.numpy())
