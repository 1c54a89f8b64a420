"""Traces a graph anew, operation by operation, into the graph that is being built.

Functions that it calls come in line, loops and branches are traced for the sizes that they are now
called with and get the values of variables, and lists become the tensors that they hold. Variables
that it writes are values: the function then has none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeAlias

from tfmp.converters.intake.saved.graph import Edits, Filling, Graph, Rewrite
from tfmp.converters.intake.saved.held import Held, captured, writes
from tfmp.converters.intake.saved.lists import READERS as LIST_READERS, Rows, made, read
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import GraphDef, NodeDef, TracedFunction
from tfmp.shared.backend import Tensor

if TYPE_CHECKING:
    import tensorflow as tf

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_LOOPS = ("While", "StatelessWhile")
# The attributes that name their branches.
_CHOICES = {"If": "then", "StatelessIf": "then", "Case": "", "StatelessCase": ""}
_READS = ("ReadVariableOp", "ResourceGather")
# They give what they are given; of tensors they keep names.
_PASSES = ("Identity", "IdentityN", "PlaceholderWithDefault", "Print")
# Of no result.
_NOTHING = ("Assert", "NoOp", "PrintV2")
CONTROL = (*_LOOPS, *_CHOICES)


# What a name of the old graph stands for.
Value: TypeAlias = Tensor | Held | Rows


@dataclass
class Retracing:
    """How a graph is traced anew.

    Attributes:
        bodies: the functions that it calls, by their names.
        edits: changes to it.
        waits: whether it writes variables, so that the order counts in which it runs.
        written: keys of the variables that were written.
    """

    bodies: Mapping[str, Graph]
    edits: Edits = field(default_factory=Edits)
    waits: bool = False
    written: dict[str, None] = field(default_factory=dict)

    def main(self, graph: Graph, given: Mapping[str, Value]) -> list[Tensor]:
        """Traces the outermost graph.

        Args:
            graph: the graph.
            given: what takes the place of its tensors, by their names.
        """
        try:
            found = list(map(self._tensor, self._traced(graph, given, "")))
        except CycleError:  # a loop of TF1, which is a circle of operations
            found = _imported(graph, given)
        for value, known in zip(found, graph.traced.outputs, strict=True):
            value.set_shape(known.shape)  # which operations alone may not tell
        ends = zip(graph.outputs, found, strict=True)
        changes = self.edits.outputs
        return [_made([changes[name]], x, name) if name in changes else x for name, x in ends]

    def _body(self, name: str, given: Iterable[Value], scope: str = "") -> list[Value]:
        graph = self.bodies[name]
        return self._traced(graph, dict(zip(graph.inputs, given, strict=True)), scope)

    def _traced(self, graph: Graph, given: Mapping[str, Value], scope: str) -> list[Value]:
        values = {name: self._widened(value) for name, value in given.items()}
        found = {node.name: (node.inputs, filling) for node, filling in self.edits.found(graph)}
        nodes = {node.name: node for node in graph.graph_def.node}
        reads = {} if graph.function else self.edits.reads
        changed: dict[tuple[Any, ...], Tensor] = {}

        def read(reader: str, index: int, name: str) -> Value:
            key = (name, *reads.get((reader, index), ()))
            if key not in changed and key[1:]:
                changed[key] = _made(key[1:], self._tensor(values[name]), name)
            return changed.get(key, values[name])

        before = {name: _inputs(node) for name, node in nodes.items()}
        before |= {name: list(inputs) for name, (inputs, _) in found.items() if name in nodes}
        for name in given:
            before.pop(name.partition(":")[0], None)
        ends = [*graph.outputs, *(graph.effects if self.waits else ())]
        for name in _ordered(ends, before, self.waits):
            node, place = nodes[name], f"{scope}{name}"
            if name in found:
                inputs, filling = found[name]
                tensors = [self._tensor(values[one]) for one in inputs]
                results: Sequence[Value] = self._filled(place, filling, tensors)
            else:
                given_names = [one for one in before[name] if one[0] != "^"]
                operands = [read(name, index, one) for index, one in enumerate(given_names)]
                results = self._operation(node, place, operands)
            values |= {f"{name}:{index}": value for index, value in enumerate(results)}
        return [values[name] for name in graph.outputs]

    def _widened(self, value: Value) -> Value:
        import tensorflow as tf

        edits, kept = self.edits, isinstance(value, Held | Rows)
        kept = kept or value.dtype.as_datatype_enum not in edits.narrow
        return value if kept else tf.cast(value, edits.wide)

    def _tensor(self, value: Value) -> Tensor:
        """A value as a tensor: a variable's value, or the list itself."""
        if isinstance(value, Held):
            return self._widened(value.read())
        return value.tensor() if isinstance(value, Rows) else value

    def _filled(self, place: str, filling: Callable[..., Any], inputs: list[Tensor]) -> list[Value]:
        import tensorflow as tf

        with tf.name_scope(f"{place}/tfmp/"):
            results = tf.nest.flatten(filling(*inputs))
        if len(results) > 1 or results[0].dtype.is_complex:
            return results
        return [tf.identity(results[0], name=place)]

    def _operation(self, node: NodeDef, place: str, inputs: list[Value]) -> Sequence[Value]:
        kind = node.op
        if kind in _CALLS or kind in self.bodies:
            name = node.attr["f"].func.name if kind in _CALLS else kind
            return self._body(name, inputs, f"{place}/")
        if kind in _NOTHING:
            return []
        if kind in _LOOPS:
            return self._loop(node, place, inputs)
        if kind in _CHOICES:
            return self._choice(node, place, inputs)
        first = inputs[0] if inputs else None
        if kind in LIST_READERS and isinstance(first, Rows):
            return [read(node, place, first, *inputs[1:])]
        if isinstance(first, Held):
            if writes(node):
                first.change(node, *map(self._tensor, inputs[1:]))
                self.written[first.key] = None
                return []
            if kind in _READS and first.value is not None:
                return [first.rows(node, *inputs[1:])]
            if kind in _READS:
                return list(map(self._widened, _again(node, place, [first.handle, *inputs[1:]])))
        if kind in _PASSES and (kind in _PASSES[2:] or _is_special(first)):
            return inputs
        node, tensors = _widened(node, self.edits), list(map(self._tensor, inputs))
        if (rows := made(node, place, tensors)) is not None:
            return [rows]
        if kind in ("Real", "Imag") and tensors[0].op.type == "Complex":
            return [tensors[0].op.inputs[kind == "Imag"]]
        results = _again(node, place, tensors, self.bodies)
        if kind == "LookupTableFindV2" and tensors[1].dtype == "string":
            results[0].set_shape(tensors[1].shape + tensors[2].shape)  # of keys and default
        if any(one.dtype.as_datatype_enum in self.edits.narrow for one in results):
            raise ConversionError(f"{node.op} {node.name!r} gives no other type")
        return results

    def _choice(self, node: NodeDef, place: str, inputs: list[Value]) -> list[Value]:
        """Choices between two, which ONNX and TFLite have, of one among many.

        An index beyond the branches means the last branch.
        """
        import tensorflow as tf

        index, *operands = inputs
        scope = place.removesuffix(node.name)
        states, operands = self._for_bodies(operands)
        if _CHOICES[node.op]:
            names = [node.attr[part].func.name for part in ("then_branch", "else_branch")]
        else:
            names = [one.name for one in node.attr["branches"].list.func]

        def branch(name: str) -> list[Tensor]:
            own = [replace(one) if isinstance(one, Held) else one for one in operands]
            results = self._body(name, own, scope)
            kept = [one.value for index in states if isinstance(one := own[index], Held)]
            return [tf.identity(self._tensor(one)) for one in (*results, *kept)]

        def from_here(number: int) -> list[Tensor]:
            if number == len(names) - 1:
                return branch(names[number])
            here = tf.cast(index, tf.bool) if _CHOICES[node.op] else tf.equal(index, number)
            return tf.cond(here, lambda: branch(names[number]), lambda: from_here(number + 1))

        results = from_here(0)
        count = len(results) - len(states)
        for state, value in zip(states.values(), results[count:], strict=True):
            state.value = value
        return results[:count]

    def _loop(self, node: NodeDef, place: str, inputs: list[Value]) -> list[Value]:
        """A loop for the sizes that its variables have now."""
        import tensorflow as tf

        scope = place.removesuffix(node.name)
        states, given = self._for_bodies(inputs)
        cond, body = (node.attr[part].func.name for part in ("cond", "body"))
        # tf2onnx takes arguments of a loop in a loop for those of the outer one by their names.
        specs = [_spec(one, f"{place}/given_{index}") for index, one in enumerate(given)]
        if self.edits.in_order:
            given = self._written_in_order(body, scope, given, specs)
        idle: set[int] = set()  # lists that no step fills

        def step(*tensors: Tensor) -> list[Tensor]:
            before = list(map(_holding, given, tensors))
            after = self._body(body, before, scope)
            for index, (old, new) in enumerate(zip(before, after, strict=True)):
                first = given[index]
                if isinstance(new, Rows) and isinstance(first, Rows):
                    given[index] = first.with_shape(new.shape)
                    idle.update({index} if new is old and first.rows == {} else ())
            return [
                x if new is old and isinstance(new, Rows) else self._carried(new)
                for x, old, new in zip(tensors, before, after, strict=True)
            ]

        while True:  # until each variable has a shape that a step keeps
            before = list(given)
            again = tf.compat.v1.wrap_function(step, specs)
            kept = list(map(_relaxed, specs, again.outputs))
            for index in idle:
                kept[index] = tf.TensorSpec((), tf.float32, specs[index].name)
            if kept == specs and before == given:
                break
            specs = kept
        test = tf.compat.v1.wrap_function(
            lambda *tensors: self._body(cond, map(_holding, given, tensors), scope), specs
        )
        carried = [
            tf.zeros(spec.shape, spec.dtype) if index in idle else self._carried(one)
            for index, (one, spec) in enumerate(zip(given, specs, strict=True))
        ]
        results = getattr(tf.raw_ops, node.op)(
            input=carried, cond=test, body=again, name=place,
            output_shapes=[spec.shape for spec in specs],
        )  # fmt: skip
        for index, state in states.items():
            state.value = results[index]
        return [
            inputs[index] if index in idle or isinstance(one, Held) else _holding(one, x)
            for index, (one, x) in enumerate(zip(given, results, strict=True))
        ]

    def _written_in_order(
        self, body: str, scope: str, given: list[Value], specs: "list[tf.TensorSpec]"
    ) -> list[Value]:
        """The variables of a loop; its lists know in which order it fills them, from two steps."""
        import tensorflow as tf

        lists = [i for i, one in enumerate(given) if isinstance(one, Rows) and one.filled]
        known = [tf.get_static_value(x) if tf.is_tensor(x) else None for x in given]
        places: list[list[Tensor | None]] = []

        def two_steps(*tensors: Tensor) -> list[Tensor]:
            values = [
                tf.constant(value or 0, x.dtype) if x.dtype.is_integer and x.shape.rank == 0 else x
                for x, value in zip(tensors, known, strict=True)
            ]
            for _ in range(2):
                after = self._body(body, map(_holding, given, values), scope)
                places.append([getattr(after[index], "place", None) for index in lists])
                values = list(map(self._carried, after))
            return values

        if lists:
            traced = tf.compat.v1.wrap_function(two_steps, specs)
            for index, *pair in zip(lists, *places, strict=True):
                given[index] = given[index].in_order(_falls(traced, pair))
        return given

    def _for_bodies(self, values: Sequence[Value]) -> tuple[dict[int, Held], list[Value]]:
        """States by their places, and values as loops and branches get them: without handles."""
        states = {
            index: one
            for index, one in enumerate(values)
            if isinstance(one, Held) and one.value is not None
        }
        return states, [
            one.holding(self._tensor(one)) if isinstance(one, Held) else one for one in values
        ]

    def _carried(self, value: Value) -> Tensor:
        """What a loop carries of a value: of a list of one tensor, that."""
        return value.carried() if isinstance(value, Rows) else self._tensor(value)


def _falls(traced: TracedFunction, places: list[Tensor | None]) -> bool:
    """Whether the second of two numbers is smaller; not where they depend on what is computed."""
    import tensorflow as tf

    try:
        with tf.init_scope():
            one, other = map(int, traced.prune([], places)())
    except Exception:  # TensorFlow's own, which is no part of its interface
        return False
    return other < one


def _made(functions: Sequence[Filling], tensor: Tensor, name: str) -> Tensor:
    """Functions of a tensor, in the scope of the layer that it belongs to."""
    import tensorflow as tf

    with tf.name_scope(f"{name.partition(':')[0]}/tfmp/"):
        for function in functions:
            tensor = function(tensor)
    return tensor


def _holding(value: Value, tensor: Tensor) -> Value:
    """A value of the same kind that holds what a loop carries."""
    return value.holding(tensor) if isinstance(value, Held | Rows) else tensor


def _spec(value: Value, name: str) -> "tf.TensorSpec":
    import tensorflow as tf

    if isinstance(value, Rows):
        return tf.TensorSpec(*value.kept, name)
    tensor = value.read() if isinstance(value, Held) else value
    return tf.TensorSpec(tensor.shape, tensor.dtype, name)


def _relaxed(spec: "tf.TensorSpec", tensor: Tensor) -> "tf.TensorSpec":
    """What a variable of a loop is before and behind each step."""
    import tensorflow as tf

    shape = spec.shape.most_specific_common_supertype([tensor.shape])
    return tf.TensorSpec(shape, spec.dtype, spec.name)


def _widened(node: NodeDef, edits: Edits) -> NodeDef:
    """A node with another type in place of narrow ones."""
    import tensorflow as tf

    kinds, dtype = edits.narrow, edits.wide
    if not kinds:
        return node
    written, node = node, type(node)()
    node.CopyFrom(written)
    wide = tf.as_dtype(dtype).as_datatype_enum
    for attribute in node.attr.values():
        if attribute.type in kinds:
            attribute.type = wide
        elif attribute.tensor.dtype in kinds:
            values = tf.make_ndarray(attribute.tensor).astype(dtype)
            attribute.tensor.CopyFrom(tf.make_tensor_proto(values))
        elif attribute.list.type:
            attribute.list.type[:] = [
                wide if kind in kinds else kind for kind in attribute.list.type
            ]
    return node


def _is_special(value: Value | None) -> bool:
    """Whether a value is none that nodes of any file hold: it needs no copy."""
    return isinstance(value, Held | Rows) or (value is not None and value.dtype.is_complex)


def _inputs(node: NodeDef) -> list[str]:
    """Names of the tensors that a node reads, and of nodes that it waits for, with "^" before."""
    return [name if ":" in name or name[0] == "^" else f"{name}:0" for name in node.input]


def _ordered(ends: Iterable[str], before: Mapping[str, Sequence[str]], waits: bool) -> list[str]:
    """The nodes that these need, each behind those that it needs, and waits for, itself."""
    needed: dict[str, list[str]] = {}
    waiting = [name.partition(":")[0].removeprefix("^") for name in ends]
    while waiting:
        name = waiting.pop()
        if name in before and name not in needed:
            read = [one for one in before[name] if waits or one[0] != "^"]
            needed[name] = [one.partition(":")[0].removeprefix("^") for one in read]
            waiting += needed[name]
    return [name for name in TopologicalSorter(needed).static_order() if name in needed]


def _again(
    node: NodeDef, place: str, tensors: Sequence[Tensor], bodies: Mapping[str, Graph] = {}
) -> list[Tensor]:
    """The same operation on other tensors."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    attributes = {name: value for name, value in node.attr.items() if name[0] != "_"}
    for value in attributes.values():
        for function in (value.func, *value.list.func):
            if function.name in bodies:
                bodies[function.name].function.add_to_graph(graph)
    made = graph.create_op(node.op, list(tensors), attrs=attributes, name=place)
    return list(made.outputs)


def inserted(graph: Graph, inputs: list[Tensor], rewrite: Rewrite) -> list[Tensor]:
    """Rewrites a traced graph and puts the result into the graph that is being built.

    Args:
        graph: the graph.
        inputs: what takes the place of its inputs.
        rewrite: changes it.
    """
    edits = Edits()
    rewrite(graph, edits)
    replaced = {node.name: node.inputs for node, _ in edits.found(graph)}
    read = {name for node in graph.nodes for name in replaced.get(node.name, node.inputs)}
    outside = captured(graph.traced, read | {*graph.outputs})
    given = {**dict(zip(graph.inputs, inputs, strict=True)), **outside}
    return Retracing(graph.bodies, edits).main(graph, given)


def _imported(graph: Graph, given: Mapping[str, Value]) -> list[Tensor]:
    """The graph as it is."""
    import tensorflow as tf

    graph_def = graph.graph_def
    kinds = {f"{node.name}:0": node.op for node in graph_def.node}
    fed = {
        name: one.handle if kinds[name] == "Placeholder" else one.read()
        for name, one in given.items()
        if isinstance(one, Held)
    }
    fed = {**given, **fed}
    names = {name.partition(":")[0] for name in fed}
    rest: GraphDef = type(graph_def)()
    rest.CopyFrom(graph_def)
    del rest.node[:]
    rest.node.extend(node for node in graph_def.node if node.name not in names)
    for node in rest.node:
        if node.op == "PlaceholderWithDefault":
            node.op = "Identity"
            node.attr["T"].CopyFrom(node.attr.pop("dtype"))
            node.attr.pop("shape", None)
    return tf.graph_util.import_graph_def(
        rest, input_map=fed, return_elements=list(graph.outputs), name=""
    )
