"""FP16 arithmetic with a switch at every node: one ONNX Runtime session tries any assignment.

Each node that may compute in FP16 reads its operands and writes its results through a choice
between the exact and the rounded value; the choice is a Boolean input of the graph. With every
switch on the session is the float32 model, with none it is the emulator of the FP16 one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.precision import FP16, FP32, Decisions, has_typed_body
from tfmp.converters.onnx.schema import EXACT, Slots, is_float, reads_any, slots
from tfmp.converters.onnx.storage import open_session
from tfmp.converters.tensors import Batch

_PREFIX = "tfmp_fp32_"


def name_nodes(model: ir.Model) -> None:
    """Gives every node a name of its own; names that are unique stay."""
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
    """The nodes whose precision changes results: not those that only move or pick values."""
    return [
        node
        for node in model.graph.all_nodes()
        if node in decisions
        and decisions[node].dtype == FP16
        and node.op_type not in EXACT
        and node.op_type not in ("Cast", "CastLike", "Shape", "Size")
        and not has_typed_body(node, model)
    ]


class SwitchedSession:
    """A model of which each node computes in FP32 or FP16, as a run says."""

    def __init__(self, model: ir.Model, decisions: Decisions) -> None:
        """Builds the one session.

        Args:
            model: prepared, float32, nodes named by `name_nodes`; changed in place.
            decisions: of `precision.decide` on it.

        Raises:
            Exception: ONNX Runtime cannot load the model; its exceptions share no base class.
        """
        self.outputs = [str(value.name) for value in model.graph.outputs]
        nodes = switchable_nodes(model, decisions)
        self.nodes = [str(node.name) for node in nodes]
        self.values = _main_values(model, nodes)
        _Builder(model).run(nodes)
        graph = model.graph
        known = set(graph.outputs)
        graph.outputs.extend(
            value
            for names in self.values.values()
            for value in names
            if value not in known and not known.add(value)  # type: ignore[func-returns-value]
        )
        self._session = open_session(model)

    def run(self, batch: Batch, fp32: Collection[str], wanted: Sequence[str]) -> Batch:
        """Outputs, or values inside, by name.

        Args:
            batch: arrays by input name.
            fp32: names of the nodes that compute in FP32; all others in FP16.
            wanted: names of outputs, or of what `values` lists.
        """
        kept = set(fp32)
        feed: dict[str, Any] = {
            f"{_PREFIX}{index}": np.array(name in kept) for index, name in enumerate(self.nodes)
        }
        feed |= {
            value.name: batch[value.name]
            for value in self._session.get_inputs()
            if not value.name.startswith(_PREFIX)
        }
        return dict(zip(wanted, self._session.run(list(wanted), feed), strict=True))


def _main_values(model: ir.Model, nodes: Sequence[ir.Node]) -> Mapping[str, list[ir.Value]]:
    """What each node of the main graph reads and writes in float32 that is made at run time."""
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
    """Puts the choices in."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._rounded: dict[ir.Value, ir.Value] = {}

    def run(self, nodes: Sequence[ir.Node]) -> None:
        """Rewrites the model for switches of these nodes, in this order."""
        graph = self._model.graph
        opsets = self._model.opset_imports
        for index, node in enumerate(nodes):
            switch = ir.Value(
                name=f"{_PREFIX}{index}",
                type=ir.TensorType(ir.DataType.BOOL),
                shape=ir.Shape([]),
            )
            graph.inputs.append(switch)
            described = slots(node, opsets.get(node.domain, 1))
            assert described is not None  # decisions keep unknown ops in FP32
            self._switch_inputs(node, described, switch)
            self._switch_outputs(node, described, switch)

    def _switch_inputs(self, node: ir.Node, described: Slots, switch: ir.Value) -> None:
        choices: dict[ir.Value, ir.Value] = {}
        for index, value in enumerate(node.inputs):
            slot = described.inputs[index]
            if not is_float(value) or not slot.half or reads_any(node, slot, described):
                continue
            assert value is not None
            rounded = self._round(value)
            if rounded is value:
                continue
            if value not in choices:
                choice = _node("Where", [switch, value, rounded], f"{value.name}_for_{node.name}")
                node.graph.insert_before(node, choice)
                choices[value] = choice.outputs[0]
            node.replace_input_with(index, choices[value])

    def _switch_outputs(self, node: ir.Node, described: Slots, switch: ir.Value) -> None:
        for value, slot in zip(node.outputs, described.outputs, strict=True):
            if not is_float(value) or not slot.half or not described.follows_input(slot):
                continue
            down, up = _rounding(value, f"{value.name}_result")
            choice = _node("Where", [switch, value, up.outputs[0]], f"{value.name}_chosen")
            chosen = choice.outputs[0]
            value.replace_all_uses_with(chosen, replace_graph_outputs=True)
            down.replace_input_with(0, value)
            choice.replace_input_with(1, value)
            node.graph.insert_after(node, [down, up, choice])
            # The chosen value keeps the name: it may be an output.
            value.name, chosen.name = chosen.name, value.name

    def _round(self, value: ir.Value) -> ir.Value:
        """`value` rounded, made once; the value itself where rounding does not change it."""
        if value in self._rounded:
            return self._rounded[value]
        if value.const_value is not None and not value.is_graph_input():
            rounded = self._rounded_constant(value)
        else:
            down, up = _rounding(value, f"{value.name}_read")
            rounded = up.outputs[0]
            producer = value.producer()
            graph = producer.graph if producer is not None else value.graph
            assert isinstance(graph, ir.Graph)
            if producer is not None:
                graph.insert_after(producer, [down, up])
            else:
                graph.insert_before(graph[0], [down, up])
        self._rounded[value] = rounded
        return rounded

    def _rounded_constant(self, value: ir.Value) -> ir.Value:
        assert value.const_value is not None
        exact = value.const_value.numpy()
        with np.errstate(over="ignore", under="ignore"):
            narrow = exact.astype(np.float16).astype(np.float32)
        if np.array_equal(exact, narrow):
            return value
        name = f"{value.name}_rounded_constant"
        rounded = ir.Value(
            name=name,
            type=ir.TensorType(FP32),
            shape=value.shape,
            const_value=ir.tensor(narrow, name=name),
        )
        self._model.graph.initializers.add(rounded)
        return rounded


def _rounding(value: ir.Value, name: str) -> tuple[ir.Node, ir.Node]:
    """Cast(float16) -> Cast(float)."""
    down = _node("Cast", [value], f"{name}_fp16", FP16)
    return down, _node("Cast", [down.outputs[0]], f"{name}_rounded", FP32)


def _node(
    op_type: str, inputs: Sequence[ir.Value], name: str, to: ir.DataType | None = None
) -> ir.Node:
    attributes = [ir.AttrInt64("to", to.value)] if to is not None else []
    node = ir.Node("", op_type, inputs, attributes, name=f"tfmp_{op_type}_{name}")
    output, source = node.outputs[0], inputs[-1]
    output.name, output.type, output.shape = name, ir.TensorType(to or FP32), source.shape
    return node
