"""Opens an FP16 ONNX file at the seams between its layers, in three ways.

All three are made from the candidate's own graph, so that its values have counterparts:

- exact: every FP16 tensor is float32, nothing is rounded, and weights are the reference's own if
  they are found there;
- received: the emulation that the candidate was compared in, with the seams as outputs;
- alone: that emulation cut at every seam, so that each part reads exact values.
"""

from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from tfmp.converters.explain.attribution import (
    GIVEN,
    Operation,
    Part,
    Seam,
    Values,
    given,
    parts_of,
)
from tfmp.converters.explain.weights import Weights
from tfmp.converters.onnx.emulation import Profile, emulated, fusions_of
from tfmp.converters.onnx.graph import (
    BF16,
    FP16,
    FP32,
    is_float,
    is_half,
    retype,
    widen_attributes,
)
from tfmp.converters.runners import OnnxRunner, RunnerInfo
from tfmp.converters.shared.tensors import Batch

_INFO = RunnerInfo("onnxruntime", "CPU", None)

# The part that a node of the main graph belongs to, by the node's name.
Grouping = Mapping[str, str]


def by_layer(model: ir.Model) -> dict[str, str]:
    """Nodes by Keras layer; a node that belongs to no layer stands for itself.

    Args:
        model: a model with nodes named by `graph.name_nodes`.
    """
    short = Counter(_short(str(node.name)) for node in model.graph)
    found: dict[str, str] = {}
    for node in model.graph:
        name = str(node.name)
        layer = node.metadata_props.get("tfmp.layer", "")
        if not layer and node.op_type == "Cast":
            # The FP16 pass puts casts behind what they read: they are part of its result.
            producer = node.inputs[0].producer() if node.inputs[0] is not None else None
            source = node.inputs[0].name if node.inputs[0] is not None else name
            layer = found.get(str(producer.name), "") if producer else f"input {source}"
        if not layer:
            layer = _short(name) if short[_short(name)] == 1 else name
        found[name] = layer
    return found


def by_node(layers: Grouping, layer: str) -> dict[str, str]:
    """The nodes of one layer one by one, and all others together."""
    return {name: name if own == layer else "" for name, own in layers.items()}


def _short(name: str) -> str:
    """Without the scope of the whole model: "model_1/Square" is "Square"."""
    return name.partition("/")[2] or name


class OnnxTaps:
    """See the module."""

    def __init__(
        self,
        model: ir.Model,
        groups: Grouping,
        profile: Profile,
        weights: Weights,
    ) -> None:
        """Opens three sessions.

        Args:
            model: a prepared FP16 model with nodes named by `graph.name_nodes`; it is not
                changed.
            groups: the part of every node of the main graph; nodes of part "" are not looked at.
            profile: the FP16 hardware that is emulated.
            weights: the reference's weights.

        Raises:
            RunnerError: ONNX Runtime cannot load one of them.
        """
        seams = _Seams(model, groups)
        fusions = fusions_of(model, profile)  # of the whole: seams would keep nodes apart
        self.parts = seams.parts()
        names = seams.names
        exact = model.clone()
        _give(exact, names)
        widen(exact, weights)
        received = model.clone()
        _give(received, names)
        _keep_wide(emulated(received, profile, fusions))
        alone = seams.cut()
        _keep_wide(emulated(alone, profile, fusions))
        self._exact, self._received, self._alone = (
            OnnxRunner(one, _INFO) for one in (exact, received, alone)
        )

    def run(self, inputs: Batch) -> Values:
        """The values of one batch; arrays by input name."""
        exact = self._exact.run(inputs)
        fed = {**inputs, **{given(name): array for name, array in exact.items()}}
        return Values(exact, self._received.run(inputs), self._alone.run(fed))


class _Seams:
    """The values that pass from one part to another."""

    def __init__(self, model: ir.Model, groups: Grouping) -> None:
        self._model = model
        self._groups = groups
        self._owners = _owners(model)
        self.values = [
            value for node in model.graph for value in node.outputs if self._crosses(value)
        ]
        self.names = [str(value.name) for value in self.values]

    def _group(self, node: ir.Node) -> str:
        return self._groups[str(self._owners[node].name)]

    def _crosses(self, value: ir.Value) -> bool:
        if not isinstance(value.type, ir.TensorType):
            return False
        own = self._group(value.producer())
        groups = {own, *(self._group(node) for node in value.consumers())}
        return len(groups) > 1 or (value.is_graph_output() and bool(own))

    def parts(self) -> tuple[Part, ...]:
        """The parts between the seams."""
        seams = [
            Seam(
                str(value.name),
                self._groups[_producer(value)],
                tuple(dict.fromkeys(self._group(node) for node in value.consumers())),
                is_float(value) or is_half(value),
            )
            for value in self.values
        ]
        nodes = (
            Operation(self._groups[str(node.name)], node.op_type, str(node.name))
            for node in self._model.graph
        )
        return parts_of(nodes, seams)

    def cut(self) -> ir.Model:
        """A copy in which every part reads the values at its seams from inputs of the graph."""
        copy = self._model.clone()
        graph = copy.graph
        owners = _owners(copy)
        made = {str(value.name): value for node in graph for value in node.outputs}
        wanted = [made[name] for name in self.names if self._groups[_producer(made[name])]]
        for name in self.names:
            value = made[name]
            own = self._groups[_producer(value)]
            stand_in = ir.Value(name=given(name), type=value.type, shape=value.shape)
            for user, index in list(value.uses()):
                if self._groups[str(owners[user].name)] != own:
                    user.replace_input_with(index, stand_in)
            if stand_in.uses():
                graph.inputs.append(stand_in)
        graph.outputs.clear()
        graph.outputs.extend(wanted)
        _prune(copy, owners)
        return copy


def single_node(
    model: ir.Model, name: str, profile: Profile
) -> tuple[ir.Model, dict[str, str], dict[str, str]]:
    """A model of one node of the main graph, which takes x0, x1, ... and gives y0, y1, ...

    It computes the numbers of `OnnxTaps`: exact inputs, and the node's own rounding emulated.

    Args:
        model: a prepared model with nodes named by `graph.name_nodes`; it is not changed.
        name: name of the node.
        profile: the FP16 hardware that is emulated.

    Returns:
        The model, and the names of its inputs and outputs in the whole model.
    """
    seams = _Seams(model, {str(node.name): name * (node.name == name) for node in model.graph})
    alone = seams.cut()
    _keep_wide(emulated(alone, profile, fusions_of(model, profile)))
    inputs, outputs = {}, {}
    for index, value in enumerate(alone.graph.inputs):
        inputs[f"x{index}"] = str(value.name).removesuffix(GIVEN)
        value.name = f"x{index}"
    for index, value in enumerate(alone.graph.outputs):
        outputs[f"y{index}"] = str(value.name)
        value.name = f"y{index}"
    return alone, inputs, outputs


def _owners(model: ir.Model) -> dict[ir.Node, ir.Node]:
    """The node of the main graph that each node is, or is inside of."""
    found: dict[ir.Node, ir.Node] = {}

    def visit(graph: ir.Graph, owner: ir.Node | None) -> None:
        for node in graph:
            found[node] = owner or node
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    visit(attribute.as_graph(), owner or node)

    visit(model.graph, None)
    return found


def _producer(value: ir.Value) -> str:
    producer = value.producer()
    assert producer is not None  # seams are made by nodes
    return str(producer.name)


def _give(model: ir.Model, names: list[str]) -> None:
    """Makes values inside the graph its outputs, in place of those it has."""
    made = {str(value.name): value for node in model.graph for value in node.outputs}
    model.graph.outputs.clear()
    model.graph.outputs.extend(made[name] for name in names)


def _prune(model: ir.Model, owners: Mapping[ir.Node, ir.Node]) -> None:
    """Takes away nodes, inputs and weights that no output needs.

    Unlike onnx-ir's pass, it also takes away nodes that only the body of a removed loop or branch
    reads.
    """
    inside: dict[ir.Node, list[ir.Node]] = {}
    for node, owner in owners.items():
        inside.setdefault(owner, []).append(node)
    graph = model.graph
    needed: set[ir.Value | None] = set(graph.outputs)
    for node in reversed(list(graph)):
        if needed.intersection(node.outputs):
            needed.update(value for inner in inside[node] for value in inner.inputs)
            continue
        for inner in inside[node]:
            for index in range(len(inner.inputs)):
                inner.replace_input_with(index, None)
        graph.remove(node)
    for value in list(graph.inputs):
        if value not in needed:
            graph.inputs.remove(value)
    for value in list(graph.initializers.values()):
        if value not in needed:
            del graph.initializers[str(value.name)]


def widen(model: ir.Model, weights: Weights) -> None:
    """Makes a model of 16 bits compute in float32 throughout, without any rounding.

    Args:
        model: a prepared model, which is changed in place.
        weights: the reference's weights, which take the place of their roundings.
    """
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values(), *graph.outputs):
            _widen(value, weights)
        for node in graph:
            for value in node.outputs:
                _widen(value, weights)
            widen_attributes(node)


def _widen(value: ir.Value, weights: Weights) -> None:
    if not is_half(value):
        return
    if value.const_value is not None:
        exact = weights.find(value.const_value.numpy())
        value.const_value = ir.tensor(exact, name=value.name)
    retype(value, FP32)


def _keep_wide(model: ir.Model) -> None:
    """Takes away casts that narrow inputs and outputs at the border of an emulated graph.

    A seam is no border: the inputs of a part are exact there, and a result is rounded only by the
    node that computes it.
    """
    graph = model.graph
    for value in graph.inputs:
        readers = list(value.consumers())
        if not str(value.name).endswith(GIVEN) or not readers or readers[0].op_type != "Cast":
            continue
        if is_float(value, FP16):
            (up,) = casts = readers
        elif is_float(readers[0].outputs[0], BF16):
            (up,) = readers[0].outputs[0].consumers()
            casts = [up, *readers]
        else:
            continue
        up.outputs[0].replace_all_uses_with(value)
        for cast in casts:
            graph.remove(cast, safe=True)
        retype(value, FP32)
    for index, value in enumerate(list(graph.outputs)):
        down = value.producer()
        if down is None or down.op_type != "Cast" or not is_float(value, FP16):
            continue
        wide = down.inputs[0]
        if wide is not None and wide.name == f"{value.name}_wide":
            graph.outputs[index] = wide
            graph.remove(down, safe=False)
            wide.name, value.name = value.name, wide.name
