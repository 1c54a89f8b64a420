"""FP16 arithmetic with a switch at every node: one ONNX Runtime session tries any assignment.

Each node that may compute in FP16 reads its operands and writes its results through a choice
between the exact and the rounded value; the choice is a Boolean input of the graph. With every
switch on, the session is the float32 model; with every switch off, it is the emulator of the FP16
model.

An If, Loop or Scan has a switch as well: it decides in which precision its states are held from
step to step.

A profile that does not hold sums in FP32 adds to each node that sums a copy with its sums, which
gives the value to round. Fusions are left out: they depend on the assignment.

Constants are inputs too: a run hands in the exact or the rounded array, and copies neither. An
operand is rounded only if the node that made it did not round it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.emulation.facts import Kind
from tfmp.converters.onnx.emulation.fp16_sums import adds_up, sum_in_fp16
from tfmp.converters.onnx.emulation.profiles import GPU, Profile
from tfmp.converters.onnx.emulation.recurrent import RECURRENT, unroll
from tfmp.converters.onnx.emulation.rounding import Roundings, to_fp16
from tfmp.converters.onnx.fp16 import Decisions, has_typed_body
from tfmp.converters.onnx.graph import (
    EXACT,
    FP16,
    FP32,
    Slots,
    UniqueNames,
    bodies_of,
    is_float,
    new_cast,
    open_session,
    reads_any,
    slots,
    stores_narrow,
)
from tfmp.converters.shared.sessions import tensor_spec
from tfmp.converters.shared.tensors import Batch

_PREFIX = "tfmp_fp32_"


def name_nodes(model: ir.Model) -> None:
    """Gives every node a name of its own; unique names stay."""
    taken: set[str] = set()
    for node in model.graph.all_nodes():
        base = node.name or f"{node.op_type}_unnamed"
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        node.name = name
        taken.add(name)


def switchable_nodes(model: ir.Model, decisions: Decisions) -> list[ir.Node]:
    """The nodes whose precision changes results, without nodes that only move or pick values."""
    return [
        node
        for node in model.graph.all_nodes()
        if node in decisions
        and decisions[node].dtype == FP16
        and node.op_type not in EXACT
        and node.op_type not in ("Cast", "CastLike", "Shape", "Size")
    ]


@dataclass(frozen=True)
class _Body:
    """The values of a body that have the type of the node that it belongs to.

    Attributes:
        graph: the body.
        inputs: inputs that are states, or read slice by slice.
        outputs: indices of the states, or results, that it gives.
    """

    graph: ir.Graph
    inputs: tuple[ir.Value, ...]
    outputs: range


def _typed_bodies(node: ir.Node) -> list[_Body]:
    """The bodies of an If, Loop or Scan; see `fp16` for how they are typed."""
    graphs = dict(bodies_of(node))
    if node.op_type == "If":
        return [_Body(graph, (), range(len(graph.outputs))) for graph in graphs.values()]
    body = graphs["body"]
    if node.op_type == "Loop":
        return [_Body(body, tuple(body.inputs[2:]), range(1, len(node.inputs) - 1))]
    states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    return [_Body(body, tuple(body.inputs), range(states))]


@dataclass(frozen=True)
class _Edge:
    """A value that a node reads through a choice.

    Attributes:
        input: the Boolean that is true where the value is read as it is.
        node: name of the node.
        makers: names of the nodes that each round their results in FP16; None if another node makes
            some of the value.
    """

    input: str
    node: str
    makers: frozenset[str] | None


@dataclass(frozen=True)
class _Constant:
    """A constant as one node reads it: the input, the node's name, and both arrays.

    It is `narrow` if a file may store it in FP16 for a node in FP32, see `stores_narrow`.
    """

    input: str
    node: str
    exact: np.ndarray
    rounded: np.ndarray
    narrow: bool


class SwitchedSession:
    """A model whose nodes compute in FP32 or FP16, as each run asks.

    Attributes:
        outputs: names of the outputs.
        nodes: names of the nodes with a switch.
        values: float32 values of each node of the main graph.
        storing: names of the nodes with weights that a file may store in FP16 for them.
        specs: signatures of the outputs.
    """

    def __init__(self, model: ir.Model, decisions: Decisions, profile: Profile = GPU) -> None:
        """Builds the one session.

        Args:
            model: a prepared float32 model with nodes named by `name_nodes`; it is changed in
                place.
            decisions: decisions of `rules.decide` on the model.
            profile: FP16 hardware to emulate, without the runtime's fusions and TF32; recurrent
                nodes add up in FP32 in every profile.

        Raises:
            Exception: ONNX Runtime cannot load the model; its exceptions share no base class.
        """
        self.outputs = [str(value.name) for value in model.graph.outputs]
        nodes = switchable_nodes(model, decisions)
        self.nodes = [str(node.name) for node in nodes]
        self.values = _main_values(model, nodes)
        builder = _Builder(model, nodes, profile)
        builder.run()
        self._edges, self._constants = builder.edges, builder.constants
        self.storing = {one.node for one in self._constants if one.narrow}
        graph = model.graph
        made = {value.name: value for node in graph for value in node.outputs}
        known = set(graph.outputs)
        for name in dict.fromkeys(str(v.name) for values in self.values.values() for v in values):
            if made[name] not in known:
                graph.outputs.append(made[name])
        self._session = open_session(model)
        own = set(self.outputs)
        self.specs = [tensor_spec(v) for v in self._session.get_outputs() if v.name in own]

    def run(
        self,
        batch: Batch,
        fp32: Collection[str],
        wanted: Sequence[str],
        narrow: Collection[str] = (),
    ) -> Batch:
        """Runs the model; gives outputs, or inner values, by name.

        Args:
            batch: arrays by input name.
            fp32: names of the nodes that compute in FP32; all others compute in FP16.
            wanted: names of outputs, or of values that `values` lists.
            narrow: names of those of `fp32` whose weights are stored in FP16.
        """
        kept, rounding = set(fp32), set(narrow)
        feed = {
            f"{_PREFIX}{index}": np.array(name in kept) for index, name in enumerate(self.nodes)
        }
        for edge in self._edges:
            rounded = edge.makers is not None and edge.makers.isdisjoint(kept)
            feed[edge.input] = np.array(rounded or edge.node in kept)
        for constant in self._constants:
            exact = constant.node in kept and not (constant.narrow and constant.node in rounding)
            feed[constant.input] = constant.exact if exact else constant.rounded
        feed |= {
            value.name: batch[value.name]
            for value in self._session.get_inputs()
            if not value.name.startswith(_PREFIX)
        }
        return dict(zip(wanted, self._session.run(list(wanted), feed), strict=True))


def _main_values(model: ir.Model, nodes: Sequence[ir.Node]) -> Mapping[str, list[ir.Value]]:
    """The float32 values, made at run time, that each node of the main graph reads and writes."""
    return {
        str(node.name): [
            value
            for value in dict.fromkeys((*node.inputs, *node.outputs))
            if value is not None and is_float(value) and value.producer() is not None
        ]
        for node in nodes
        if node.graph is model.graph
    }


class _Builder:
    """Puts the choices in.

    Attributes:
        edges: values that are read through a choice.
        constants: constants that have become inputs.
    """

    def __init__(self, model: ir.Model, nodes: Sequence[ir.Node], profile: Profile) -> None:
        self.edges: list[_Edge] = []
        self.constants: list[_Constant] = []
        self._model = model
        self._nodes = nodes
        self._profile = profile
        self._roundings = Roundings(model)
        self._copies: list[ir.Node] = []
        self._unique = UniqueNames(model)
        self._narrow: dict[ir.Value, np.ndarray | None] = {}
        self._makers: dict[ir.Value, frozenset[str] | None] = {}

    def run(self) -> None:
        """Rewrites the model."""
        graph = self._model.graph
        opsets = self._model.opset_imports
        switches = [self._boolean(f"{_PREFIX}{index}") for index in range(len(self._nodes))]
        described = [slots(node, opsets.get(node.domain, 1)) for node in self._nodes]
        for node, found in zip(self._nodes, described, strict=True):
            assert found is not None  # decisions keep unknown ops in FP32
            for value in self._rounded_by(node, found):
                self._makers[value] = frozenset({str(node.name)})
        for node, found in zip(self._nodes, described, strict=True):
            assert found is not None
            self._switch_inputs(node, found)
        for node, found, switch in zip(self._nodes, described, switches, strict=True):
            assert found is not None
            if has_typed_body(node, self._model):
                self._switch_bodies(node, switch)
            else:
                self._switch_outputs(node, found, switch)
        recurrent = {
            node: switch
            for node, switch in zip(self._nodes, switches, strict=True)
            if node.op_type in RECURRENT
        }
        sum_in_fp16(self._model, self._copies, self._profile)
        # Their states are rounded between steps.
        coarse = bool(self._profile.ops(Kind.COARSE))
        unroll(self._model, recurrent, recurrent, coarse)
        for value in list(graph.initializers.values()):
            if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
                del graph.initializers[str(value.name)]

    def _rounded_by(self, node: ir.Node, described: Slots) -> list[ir.Value]:
        """The values that hold only FP16 numbers if a node is FP16."""
        if not has_typed_body(node, self._model):
            return _rounded_outputs(node, described)
        bodies = _typed_bodies(node)
        found = [*(value for body in bodies for value in body.inputs)]
        found += node.outputs[: len(bodies[0].outputs)]
        return [value for value in found if is_float(value)]

    def _switch_bodies(self, node: ir.Node, switch: ir.Value) -> None:
        """Rounds the results of a node's bodies."""
        for body in _typed_bodies(node):
            for index in body.outputs:
                value = body.graph.outputs[index]
                if is_float(value):
                    choice = self._choice(body.graph, switch, value, "state")
                    for one in choice:
                        body.graph.append(one)
                    body.graph.outputs[index] = choice[-1].outputs[0]

    def _boolean(self, name: str) -> ir.Value:
        return self._input(name, ir.DataType.BOOL, ir.Shape([]))

    def _input(self, name: str, dtype: ir.DataType, shape: ir.Shape | None) -> ir.Value:
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=shape)
        self._model.graph.inputs.append(value)
        return value

    def _switch_inputs(self, node: ir.Node, described: Slots) -> None:
        choices: dict[ir.Value, ir.Value] = {}
        for index, value in enumerate(node.inputs):
            slot = described.inputs[index]
            if not is_float(value) or not slot.half or reads_any(node, slot, described):
                continue
            assert value is not None
            if value not in choices:
                constant = value.const_value is not None and not value.is_graph_input()
                made = self._constant(node, value) if constant else self._edge(node, value)
                choices[value] = made
            node.replace_input_with(index, choices[value])

    def _constant(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """An input in the place of a constant that rounding changes."""
        rounded = self._rounded(value)
        if rounded is None:
            return value
        assert value.const_value is not None
        exact = np.ascontiguousarray(value.const_value.numpy())  # others would be copied each run
        name = f"{_PREFIX}constant_{len(self.constants)}"
        narrow = stores_narrow(value)
        self.constants.append(_Constant(name, str(node.name), exact, rounded, narrow))
        return self._input(name, FP32, value.shape)

    def _rounded(self, value: ir.Value) -> np.ndarray | None:
        """A constant rounded, once; None where rounding does not change it."""
        if value not in self._narrow:
            assert value.const_value is not None
            exact = value.const_value.numpy()
            narrow = to_fp16(exact, self._profile.flushes)
            same = np.array_equal(exact, narrow, equal_nan=True)
            self._narrow[value] = None if same else narrow
        return self._narrow[value]

    def _edge(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """A value as one node reads it."""
        switch = self._boolean(f"{_PREFIX}edge_{len(self.edges)}")
        self.edges.append(_Edge(str(switch.name), str(node.name), self._made_by(value)))
        choice = self._choice(node.graph, switch, value, "read")
        node.graph.insert_before(node, choice)
        return choice[-1].outputs[0]

    def _made_by(self, value: ir.Value) -> frozenset[str] | None:
        """The nodes that round a value where they are FP16; None where that is not all of it."""
        if value not in self._makers:
            if value.const_value is not None and not value.is_graph_input():
                self._makers[value] = frozenset() if self._rounded(value) is None else None
            else:
                self._makers[value] = self._moved(value.producer())
        return self._makers[value]

    def _moved(self, node: ir.Node | None) -> frozenset[str] | None:
        """The same for the results of a node that only moves or picks values."""
        if node is None or node.domain != "" or node.op_type not in EXACT:
            return None
        makers = [self._made_by(value) for value in node.inputs if value and is_float(value)]
        known = [names for names in makers if names is not None]
        return frozenset().union(*known) if len(known) == len(makers) else None

    def _switch_outputs(self, node: ir.Node, described: Slots, switch: ir.Value) -> None:
        for value in _rounded_outputs(node, described):
            users = list(value.uses())
            copy = self._summing_copy(node, value)
            choice = self._choice(node.graph, switch, value, "chosen", copy)
            chosen = choice[-1].outputs[0]
            for user, index in users:
                user.replace_input_with(index, chosen)
            for index, output in enumerate(list(node.graph.outputs)):
                if output is value:
                    node.graph.outputs[index] = chosen
            node.graph.insert_after(node, choice)
            # The chosen value keeps the name: it may be an output.
            value.name, chosen.name = chosen.name, value.name

    def _summing_copy(self, node: ir.Node, value: ir.Value) -> ir.Node | None:
        """A copy of a node, whose first result is `value`, that will hold its sums in FP16."""
        if value is not node.outputs[0] or not adds_up(node, self._profile):
            return None
        name = self._unique(f"{value.name}_sums")
        copy = ir.Node("", node.op_type, node.inputs, node.attributes.values(), name=name)
        _describe(copy.outputs[0], name, FP32, value.shape)
        self._copies.append(copy)
        return copy

    def _choice(
        self,
        graph: ir.Graph,
        exact: ir.Value,
        value: ir.Value,
        what: str,
        copy: ir.Node | None = None,
    ) -> list[ir.Node]:
        """Nodes of which the last gives a value as it is, or that of a copy's, rounded."""
        name = self._unique(f"{value.name}_{what}")
        made = [] if copy is None else [copy]
        down = self._cast(value if copy is None else copy.outputs[0], FP16, f"{name}_fp16")
        up = self._cast(down.outputs[0], FP32, f"{name}_rounded")
        if self._profile.flushes:
            made += [down, up]
            *between, up = self._roundings.flushed(up.outputs[0])
            made += between
        else:
            made.append(down)
        if graph is not self._model.graph:  # values in bodies are small, and If takes its time
            return [*made, up, _node("Where", [exact, value, up.outputs[0]], name)]
        same = _node("Identity", [value], self._unique(f"{name}_exact"))
        branches = [
            ir.AttrGraph("then_branch", ir.Graph([], same.outputs, nodes=[same], name="exact")),
            ir.AttrGraph(
                "else_branch", ir.Graph([], up.outputs, nodes=[*made, up], name="rounded")
            ),
        ]
        choice = ir.Node("", "If", [exact], branches, name=f"tfmp_If_{name}")
        _describe(choice.outputs[0], name, FP32, value.shape)
        return [choice]

    def _cast(self, value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
        unique = self._unique(name)
        return new_cast(value, dtype, unique, f"tfmp_Cast_{unique}")


def _rounded_outputs(node: ir.Node, described: Slots) -> list[ir.Value]:
    """The outputs that an FP16 node writes in FP16."""
    return [
        value
        for value, slot in zip(node.outputs, described.outputs, strict=True)
        if is_float(value) and slot.half and described.follows_input(slot)
    ]


def _node(op_type: str, inputs: Sequence[ir.Value], name: str) -> ir.Node:
    node = ir.Node("", op_type, inputs, name=f"tfmp_{op_type}_{name}")
    _describe(node.outputs[0], name, FP32, inputs[-1].shape)
    return node


def _describe(value: ir.Value, name: str, dtype: ir.DataType, shape: ir.Shape | None) -> None:
    value.name, value.type, value.shape = name, ir.TensorType(dtype), shape
