"""Variables that a function writes, as inputs and outputs of a function without variables.

A streaming model keeps the end of one block for the beginning of the next. Files keep nothing
between calls: the caller hands the states in, and gets the new ones back.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np

from tfmp.converters.intake.saved.branches import choices_kept
from tfmp.converters.intake.saved.graph import imported, without_nodes
from tfmp.converters.intake.saved.halves import in_float32
from tfmp.converters.intake.saved.loops import (
    READS,
    become_read,
    know_elements,
    lists_read,
    read_outside,
    with_samples,
)
from tfmp.converters.intake.saved.plain_forms import plain_forms
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import GraphDef, NodeDef, TfFunction, Variable
from tfmp.converters.shared.tensors import TensorSpec, unique_name
from tfmp.shared.backend import Tensor

# Names that TensorFlow gives to copies of the arguments and results of a function put in line.
_BORDER = re.compile(r"^Func/.*/(input|output)/_\d+$")

_SETS, _ADDS, _SUBTRACTS = "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"


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
        """Rewrites the graph of a function.

        Raises:
            ConversionError: a loop or branch uses a state.
        """
        graph_def = _in_line(function)
        held = _own_references(function, graph_def)
        nodes = {node.name: node for node in graph_def.node}
        _require_plain_writes(graph_def)
        written = [node for node in graph_def.node if _writes(node)]
        writes = {_origin(node.input[0], nodes): node.name for node in written}
        read_outside(graph_def, _aliases(writes, nodes))
        captured = [inside.name.partition(":")[0] for _, inside in function.graph.captures]
        widened = () if writes else in_float32(graph_def, captured)
        writes = {name: writes[name] for name in (*captured, *writes) if name in writes}
        self._function = function
        told = f"its graph computes in {', '.join(widened)}: converted in float32"
        self.notes = (told,) if widened else ()
        by_handle = {id(variable.handle): variable for variable in function.variables}
        self._handles: dict[str, Variable] = dict(held)
        self.variables = (*function.variables, *held.values())
        self._constants: dict[str, Tensor] = {}
        for outside, inside in function.graph.captures:
            name = inside.name.partition(":")[0]
            if outside.dtype.name == "resource" and id(outside) in by_handle:
                self._handles[name] = by_handle[id(outside)]
            else:
                self._constants[name] = outside
        missing = [handle for handle in writes if handle not in self._handles]
        if missing:
            raise ConversionError(f"{writes[missing[0]]} writes to something that is no variable.")
        self.arguments = [
            tensor.name.partition(":")[0]
            for tensor in function.inputs
            if tensor.name.partition(":")[0] not in {*self._handles, *self._constants}
        ]
        self._held = {handle: f"tfmp_state_{index}" for index, handle in enumerate(writes)}
        self.states = tuple(_states(self._handles[handle] for handle in writes))
        self._graph_def, newest = _without_states(
            graph_def, self._held, {h: self._handles[h] for h in writes}
        )
        self._results = [tensor.name for tensor in function.outputs]
        self._newest = [newest[handle] for handle in writes]

    def __call__(
        self, arguments: Mapping[str, Tensor], states: Iterable[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Adds the function to the graph that is being traced.

        Args:
            arguments: by the names in `arguments`.
            states: in the order of `states`.

        Returns:
            Results in the order of the function's outputs, and the new states.
        """
        import tensorflow as tf
        from tensorflow.python.ops.resource_variable_ops import variable_accessed

        fed: dict[str, Tensor] = {f"{name}:0": arguments[name] for name in self.arguments}
        graph = tf.compat.v1.get_default_graph()
        fed |= {f"{name}:0": graph.capture(value) for name, value in self._constants.items()}
        for name, variable in self._handles.items():
            variable_accessed(variable)
            fed[f"{name}:0"] = graph.capture(variable.handle)
        fed |= {f"{n}:0": state for n, state in zip(self._held.values(), states, strict=True)}
        sizes = {value.shape[0] for value in arguments.values() if value.shape.rank}
        graph_def = self._graph_def
        if len(sizes) == 1 and (samples := sizes.pop()) is not None:
            graph_def = _sized(graph_def, samples, fed)
        results, count = (*self._results, *self._newest), len(self._results)
        found = imported(graph_def, fed, results, self._function.outputs)
        return found[:count], found[count:]


def _sized(graph_def: GraphDef, samples: int, fed: Mapping[str, Tensor]) -> GraphDef:
    """The graph with loops over a number of samples, if its sizes then agree with each other.

    States may have more rows than samples. A layer that works on each step of each sample has as
    many more, which shapes tell once those of the arguments are known.
    """
    sized = with_samples(graph_def, samples)
    if _shapes(sized, fed) is not None:
        return sized
    shapes = _shapes(graph_def, fed) or {}
    of_loops = {
        loop: shape[1]
        for loop, tensor in lists_read(graph_def)
        if len(shape := shapes.get(_tensor(tensor), ())) > 1 and shape[1] is not None
    }
    sized = with_samples(graph_def, samples, of_loops)
    return graph_def if _shapes(sized, fed) is None else sized


def _shapes(
    graph_def: GraphDef, fed: Mapping[str, Tensor]
) -> dict[str, tuple[int | None, ...]] | None:
    """Shapes of all results of known rank; None if sizes in the graph contradict each other."""
    import tensorflow as tf

    known = {f"{node.name}:0" for node in graph_def.node}
    with tf.Graph().as_default() as graph:
        stand_ins = {
            name: tf.compat.v1.placeholder(value.dtype, value.shape)
            for name, value in fed.items()
            if name in known
        }
        try:
            tf.graph_util.import_graph_def(graph_def, input_map=stand_ins, name="")
        except ValueError:
            return None
        found = [value for operation in graph.get_operations() for value in operation.outputs]
        return {value.name: tuple(value.shape) for value in found if value.shape.rank is not None}


def _in_line(function: TfFunction) -> GraphDef:
    """The graph of a function, with inner functions in their place."""
    import tensorflow as tf
    from tensorflow.python.framework import convert_to_constants

    # Graphs of TF1 keep the names of nodes that fill tables, which the function may not contain.
    function.graph.clear_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
    with choices_kept():
        in_line = convert_to_constants._run_inline_graph_optimization(function, False, True)
    graph_def = _without_borders(in_line)
    plain_forms(graph_def)
    _take_defaults(graph_def)
    know_elements(graph_def)
    return graph_def


def _own_references(function: TfFunction, graph_def: GraphDef) -> dict[str, Variable]:
    """Makes resource variables of TF1's reference variables, which TFLite's converter loses.

    Returns:
        The variables, by the names of the inputs that are their handles.
    """
    import tensorflow as tf

    nodes = [node for node in graph_def.node if node.op in ("Variable", "VariableV2")]
    if not nodes:
        return {}
    with function.graph.as_default() as graph:
        read = [tf.identity(graph.get_tensor_by_name(f"{node.name}:0")) for node in nodes]
    held = {}
    for node, value in zip(nodes, function.prune([], read)(), strict=True):
        handle = graph_def.node.add(name=f"{node.name}/handle", op="Placeholder")
        handle.attr["dtype"].type = tf.resource.as_datatype_enum
        held[handle.name] = tf.Variable(value, name=node.name)
        node.op = "ReadVariableOp"
        node.input[:] = [handle.name]
        node.attr.pop("shape", None)
        node.attr.pop("container", None)
        node.attr.pop("shared_name", None)
    return held


def _take_defaults(graph_def: GraphDef) -> None:
    """Settles what a signature leaves open to a default, such as whether a TF1 graph is trained."""
    for node in graph_def.node:
        if node.op == "PlaceholderWithDefault":
            node.op = "Identity"
            node.attr["T"].CopyFrom(node.attr.pop("dtype"))
            node.attr.pop("shape", None)


def _without_borders(graph_def: GraphDef) -> GraphDef:
    """The graph without the copies that stand where an inner function began and ended.

    Their names are those of no layer, and they ask to lie on the device of nodes that are replaced.
    """
    borders = {
        node.name: node.input
        for node in graph_def.node
        if node.op == "Identity" and _BORDER.search(node.name)
    }

    def behind(name: str) -> Iterable[str]:
        plain = name.removeprefix("^").removesuffix(":0")
        if plain not in borders:
            return [name]
        value, *waited = borders[plain]
        found = [*behind(value), *(one for other in waited for one in behind(other))]
        if name.startswith("^"):
            return [f"^{one.removeprefix('^').partition(':')[0]}" for one in found]
        return found

    result = without_nodes(graph_def, borders.keys())
    for node in result.node:
        node.attr.pop("_class", None)
        found = [one for name in node.input for one in behind(name)]
        del node.input[:]
        # Values come first, then what is only waited for.
        node.input.extend(sorted(found, key=lambda name: name.startswith("^")))
    return result


def _require_plain_writes(graph_def: GraphDef) -> None:
    """Raises `ConversionError` where the body of a loop or branch writes a state."""
    bodies = {inner.signature.name: inner.node_def for inner in graph_def.library.function}

    def writes(node: NodeDef, seen: frozenset[str]) -> bool:
        names = [name for name in _called(node) if name in bodies and name not in seen]
        return _writes(node) or any(
            writes(inner, seen | {name}) for name in names for inner in bodies[name]
        )

    for node in graph_def.node:
        if not _writes(node) and writes(node, frozenset()):
            raise _inside(node)


def _writes(node: NodeDef) -> bool:
    """Whether a node changes a variable: its first input, as in ResourceScatterUpdate."""
    kinds = ("Assign", "ResourceScatter", "ResourceStridedSlice", "ResourceApply", "ResourceSparse")
    return node.op.startswith(kinds)


def _called(node: NodeDef) -> Iterable[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _inside(node: NodeDef) -> ConversionError:
    loop = node.op in ("While", "StatelessWhile", "For")
    way = "Read the state before the branch, and assign it behind the branch"
    return ConversionError(
        f"{node.op} {node.name!r} changes or reads a state inside of it, which only the outermost "
        "graph of a streaming model may do",
        "Unroll that loop" if loop else way,
    )


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


def _without_states(
    graph_def: GraphDef, held: Mapping[str, str], variables: Mapping[str, Variable]
) -> tuple[GraphDef, dict[str, str]]:
    """The graph with values in place of states, and the tensor of each state's last value."""

    if not held and any(node.op == "Enter" for node in graph_def.node):
        # A loop of TF1 is a cycle, in which constants wait for the step that they belong to.
        return graph_def, {}
    nodes = {node.name: node for node in graph_def.node}
    result = without_nodes(graph_def, nodes.keys())
    newest = {}
    for handle, name in held.items():
        node = result.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = variables[handle].dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(variables[handle].shape.as_proto())
        newest[handle] = f"{name}:0"
    for node in _in_order(graph_def):
        sources = [_origin(name, nodes) for name in node.input if not name.startswith("^")]
        touched = [source for source in sources if source in held]
        if not touched or node.op in ("Identity", *READS):
            copy = result.node.add()
            copy.CopyFrom(node)
            # What ran first because of its effect has none now.
            copy.input[:] = [name for name in node.input if not name.startswith("^")]
            if touched and node.op in READS:
                become_read(copy, result.node.add, newest[touched[0]])
            continue
        (handle,) = touched
        if node.op == _SETS:
            newest[handle] = _tensor(node.input[1])
        elif node.op in (_ADDS, _SUBTRACTS):
            copy = result.node.add(name=node.name, op="AddV2" if node.op == _ADDS else "Sub")
            copy.input.extend([newest[handle], node.input[1]])
            copy.attr["T"].type = node.attr["dtype"].type
            newest[handle] = f"{node.name}:0"
        elif _writes(node):
            state = variables[handle].name.partition(":")[0]
            raise ConversionError(
                f"{node.op} {node.name!r} changes a part of the state {state!r} in place, which a "
                "streaming model may not do",
                "Compute its whole new value, with tf.tensor_scatter_nd_update or tf.concat, and "
                "assign that value",
            )
        else:
            raise _inside(node)
    return result, newest


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _aliases(handles: Collection[str], nodes: Mapping[str, NodeDef]) -> set[str]:
    """Names of nodes that give one of these handles, identities among them."""
    return {*handles, *(name for name in nodes if _origin(name, nodes) in handles)}


def _origin(name: str, nodes: Mapping[str, NodeDef]) -> str:
    """The node that a value comes from, behind identities."""
    plain = name.partition(":")[0].removeprefix("^")
    while plain in nodes and nodes[plain].op == "Identity":
        plain = nodes[plain].input[0].partition(":")[0]
    return plain


def _in_order(graph_def: GraphDef) -> Iterable[NodeDef]:
    """The nodes, each behind all that it waits for."""
    nodes = {node.name: node for node in graph_def.node}
    before = {
        name: [source.partition(":")[0].removeprefix("^") for source in node.input]
        for name, node in nodes.items()
    }
    return (nodes[name] for name in TopologicalSorter(before).static_order() if name in nodes)
