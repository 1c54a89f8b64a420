"""The FP16 pass: one walk over a float32 ONNX graph that makes every decision true.

A value is cast right behind the node that makes it, once for each type that it is read in, and all
readers share the cast, in subgraphs too. A constant gets one copy for each type that it is read in.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    LiftSubgraphInitializersToMainGraphPass,
)

from tfmp.converters.onnx.fp16 import gaps
from tfmp.converters.onnx.fp16.divisors import raise_epsilons, raise_least_lengths
from tfmp.converters.onnx.fp16.edges import has_type_of, split_biases
from tfmp.converters.onnx.fp16.report import ConstantChange, Fp16Report, Island
from tfmp.converters.onnx.fp16.rules import (
    TYPED_BY_ATTRIBUTE,
    Decision,
    Decisions,
    decide,
    has_typed_body,
    islands,
)
from tfmp.converters.onnx.graph import (
    BF16,
    FP16,
    FP32,
    HALVES,
    UniqueNames,
    bodies_of,
    constant_facts,
    converted,
    infer_types,
    is_float,
    is_half,
    name_of,
    new_cast,
    new_constant,
    nodes_of,
    reads_any,
    remove_unused,
    retype,
    slots,
    stores_narrow,
)
from tfmp.converters.onnx.rewrites import rewrite
from tfmp.converters.shared.tensors import Batch


def to_fp16(
    model: ir.Model,
    keep_fp32: Sequence[str] = (),
    fp16_io: bool = False,
    keep_nodes: Mapping[str, str] | None = None,
    rewritten: Sequence[str] | None = None,
    target: str = gaps.ANY,
    edges: Batch | None = None,
    low: ir.DataType = FP16,
    narrow_weights: Collection[str] = (),
) -> tuple[ir.Model, Fp16Report]:
    """Rewrites a float32 model to compute in 16 bits wherever its ops and constants allow.

    Args:
        model: the model, which is changed in place; its functions are inlined.
        keep_fp32: see `rules.decide`.
        fp16_io: also turn float32 graph inputs and outputs into float16 ones.
        keep_nodes: see `rules.decide`.
        rewritten: the result of `rewrites.rewrite` on the model; None to call it here.
        target: see `rules.decide`.
        edges: see `rules.decide`.
        low: the type of 16 bits, FLOAT16 or BFLOAT16.
        narrow_weights: see `rules.decide`.

    Returns:
        The model and a report. A model that already computes in 16 bits anywhere is returned as it
        is: its FP32 parts are taken to be meant.

    Raises:
        InputError: a pattern of `keep_fp32` is invalid or matches nothing.
        ConversionError: types cannot be inferred.
    """
    prepare(model)
    if computes_in_half(model):
        return model, Fp16Report(sum(_count(model, half) for half in HALVES), 0, (), ())
    if rewritten is None:
        rewritten = rewrite(model, keep_fp32, keep_nodes, HALVES[low])
    if edges is not None:
        split_biases(model)
    decisions = decide(model, keep_fp32, keep_nodes, target, edges, low, narrow_weights)
    halves = [node for node, found in decisions.items() if found.dtype == FP16]
    raised = raise_epsilons(halves)
    raise_least_lengths(halves)
    rewriter = _Rewriter(model, decisions, low)
    rewriter.run(fp16_io)
    remove_unused(model)
    kept = tuple(
        Island(
            name_of(node),
            node.op_type,
            node.metadata_props.get("tfmp.layer", ""),
            decision.reason,
        )
        for node, decision in islands(decisions)
    )
    return model, Fp16Report(
        half_nodes=sum(decision.dtype == low for decision in decisions.values()),
        casts=sum(node.graph is not None for node in rewriter.inserted),
        islands=kept,
        constants=tuple(rewriter.changes),
        rewrites=(*rewritten, *raised),
        float64_nodes=_count(model, ir.DataType.DOUBLE),
        numbers=HALVES[low],
    )


# Cast between float types is the same since this opset of 2019; later ones add narrower types.
_CAST_OPSET = 13


def prepare(model: ir.Model) -> None:
    """Inlines functions, lifts constants to initializers, names and types every value.

    Nodes are put in order: ONNX Runtime runs files whose nodes are not.
    """
    if model.functions:
        InlinePass()(model)
    model.graph.sort()
    # Casts are ops of the default domain, which a model of other domains need not import.
    model.opset_imports.setdefault("", _CAST_OPSET)
    nodes = nodes_of(model.graph)
    if any(node.op_type == "Constant" for node in nodes):
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    if any(any(bodies_of(node)) for node in nodes):
        LiftSubgraphInitializersToMainGraphPass()(model)
    infer_types(model)


def computes_in_half(model: ir.Model, *types: ir.DataType) -> bool:
    """Whether any node of a model with known types, other than a cast, writes 16 bits.

    Args:
        model: the model.
        *types: the types of 16 bits that count; all of `HALVES` if none is given.
    """
    return any(_count(model, half) > 0 for half in types or HALVES)


def _count(model: ir.Model, dtype: ir.DataType) -> int:
    """Nodes, other than casts, that write values of a type."""
    return sum(
        any(is_float(value, dtype) for value in node.outputs)
        for node in nodes_of(model.graph)
        if node.op_type != "Cast"
    )


class _Rewriter:
    """Walks the graph in order, changing types and inserting casts."""

    def __init__(self, model: ir.Model, decisions: Decisions, low: ir.DataType) -> None:
        self.model = model
        self._low = low
        self.inserted: set[ir.Node] = set()
        self.changes: list[ConstantChange] = []
        self._decisions = decisions
        self._copies: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        self._wide: dict[ir.Value, ir.Value] = {}  # weights in 16 bits, cast back
        self._unique = UniqueNames(model)

    def run(self, fp16_io: bool) -> None:
        """Rewrites the whole model."""
        graph = self.model.graph
        if fp16_io:
            for value in graph.inputs:
                if is_float(value):
                    retype(value, self._low)
        self._walk(graph)
        self._drop_idle_casts()
        for index, value in enumerate(list(graph.outputs)):
            wanted = self._low if fp16_io else FP32
            if (is_half(value) or is_float(value)) and value.dtype != wanted:
                self._convert_output(graph, index, wanted)
        # A float32 original that only FP16 readers had leaves its name to its copy.
        for value in list(graph.initializers.values()):
            if value.uses() or value.is_graph_output() or value.is_graph_input():
                continue
            name = str(value.name)
            del graph.initializers[name]
            copy = self._copies.get((value, self._low))
            if copy is not None:
                copy.name = name

    def _drop_idle_casts(self) -> None:
        """Removes the model's own casts that have become, or were, casts to the type they read."""
        for node in nodes_of(self.model.graph):
            if node.op_type not in ("Cast", "CastLike") or node.domain != "":
                continue
            source, output = node.inputs[0], node.outputs[0]
            assert source is not None  # casts have no optional operands
            if source.dtype != output.dtype:
                continue
            if output.is_graph_output():
                maker = source.producer()
                if maker is None or maker.graph is not node.graph or source.is_graph_output():
                    continue
                source.name, output.name = output.name, source.name
                source.shape = output.shape  # the graph's contract
            output.replace_all_uses_with(source, replace_graph_outputs=True)
            node.graph.remove(node, safe=True)

    def _walk(self, graph: ir.Graph) -> None:
        for node in list(graph):
            decision = self._decisions.get(node, Decision(FP32))
            if has_typed_body(node, self.model):
                _SUBGRAPH_HANDLERS[node.op_type](self, node, decision.dtype)
                continue
            for _, body in bodies_of(node):
                self._walk(body)
            self._retype(node, decision.dtype)
            if decision.narrow:
                self._store_narrow(node)

    def _retype(self, node: ir.Node, dtype: ir.DataType) -> None:
        """Casts the operands of one node to the types that it reads, and types its outputs."""
        described = slots(node, self.model.opset_imports.get(node.domain, 1), self._low)
        for index, value in enumerate(node.inputs):
            if not (is_half(value) or is_float(value)):
                continue
            slot = described.inputs[index] if described else None
            if slot is not None and slot.half and reads_any(node, slot, described):
                continue
            wanted = dtype if slot is not None and slot.half else FP32
            self._read_as(node, index, wanted)
        if dtype != self._low or described is None:
            return
        for value, slot in zip(node.outputs, described.outputs, strict=True):
            typed = node.op_type in TYPED_BY_ATTRIBUTE or described.follows_input(slot)
            if is_float(value) and slot.variable is not None and slot.half and typed:
                retype(value, self._low)
        _set_output_type(node, dtype)

    def _store_narrow(self, node: ir.Node) -> None:
        """Stores the weights of a node in FP32 in 16 bits, and casts them back."""
        for index, value in enumerate(node.inputs):
            if not is_float(value) or not stores_narrow(value, HALVES[self._low]):
                continue
            assert value is not None
            if value not in self._wide:
                narrow = self._as_type(value, self._low)
                self._wide[value] = self._cast(narrow, FP32)
            node.replace_input_with(index, self._wide[value])

    def _read_as(self, node: ir.Node, index: int, dtype: ir.DataType) -> None:
        value = node.inputs[index]
        if value is not None and value.dtype != dtype:
            node.replace_input_with(index, self._as_type(value, dtype))

    def _as_type(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """`value` as `dtype`: another constant, or a Cast right behind the node that makes it."""
        key = (value, dtype)
        if key not in self._copies:
            constant = value.const_value is not None and not value.is_graph_input()
            make = self._converted_constant if constant else self._cast
            self._copies[key] = make(value, dtype)
        return self._copies[key]

    def _converted_constant(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        graph = value.graph
        assert graph is not None  # an initializer belongs to a graph
        assert value.const_value is not None
        if dtype == self._low:
            facts = constant_facts(value, HALVES[dtype])
            lost = facts.vanished, facts.subnormal
            if any(lost):
                self.changes.append(ConstantChange(value.name or "", facts.size, *lost))
        name = self._unique(f"{value.name}_{_SUFFIX[dtype]}")
        return new_constant(graph, name, converted(value.const_value, dtype, name))

    def _cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        producer, graph = value.producer(), value.graph
        if producer is not None:
            graph = producer.graph
        assert isinstance(graph, ir.Graph)  # functions were inlined
        cast = self._new_cast(value, dtype, f"{value.name}_{_SUFFIX[dtype]}")
        if producer is not None:
            graph.insert_after(producer, cast)
        elif len(graph):
            graph.insert_before(graph[0], cast)
        else:
            graph.append(cast)
        return cast.outputs[0]

    def _new_cast(self, value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
        name = self._unique(name)
        cast = new_cast(value, dtype, name, self._unique(f"cast_{name}"))
        producer = value.producer()
        if producer is not None and "tfmp.layer" in producer.metadata_props:
            cast.metadata_props["tfmp.layer"] = producer.metadata_props["tfmp.layer"]
        self.inserted.add(cast)
        return cast

    def _convert_output(self, graph: ir.Graph, index: int, dtype: ir.DataType) -> None:
        """Makes one graph output `dtype`, under its old name."""
        value = graph.outputs[index]
        name = value.name
        cast = self._new_cast(value, dtype, f"{name}_{_SUFFIX[dtype]}")
        graph.append(cast)
        graph.outputs[index] = cast.outputs[0]
        if graph is self.model.graph and not value.is_graph_input() and not value.is_graph_output():
            # The name is the contract; the value inside gets another.
            value.name, cast.outputs[0].name = cast.outputs[0].name, name

    def _if(self, node: ir.Node, dtype: ir.DataType) -> None:
        """Both branches must write the same types."""
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        for branch in branches:
            self._walk(branch)
        for index, output in enumerate(node.outputs):
            if not is_float(output):
                continue
            for branch in branches:
                if branch.outputs[index].dtype != dtype:
                    self._convert_output(branch, index, dtype)
            retype(output, dtype)

    def _looped(self, node: ir.Node, dtype: ir.DataType) -> None:
        """State has one type: where it starts, in the body, and where it comes out.

        So have the slices that a Scan reads. What it stacks has the type that its body writes.
        """
        body = node.attributes["body"].as_graph()
        # A Loop counts, and asks whether to go on.
        first, after = (2, 1) if node.op_type == "Loop" else (0, 0)
        for index in range(first, len(node.inputs)):
            if is_float(body.inputs[index]):
                self._read_as(node, index, dtype)
                retype(body.inputs[index], dtype)
        self._walk(body)
        for index, output in enumerate(node.outputs, after):
            if not is_float(output):
                continue
            if has_type_of(node, [output]) and body.outputs[index].dtype != dtype:
                self._convert_output(body, index, dtype)
            inner = body.outputs[index].dtype
            assert inner is not None  # a float, as the output is
            retype(output, inner)


_SUFFIX = {FP16: "fp16", BF16: "bf16", FP32: "fp32"}

_SUBGRAPH_HANDLERS: dict[str, Callable[[_Rewriter, ir.Node, ir.DataType], None]] = {
    "If": _Rewriter._if,
    "Loop": _Rewriter._looped,
    "Scan": _Rewriter._looped,
}


def _set_output_type(node: ir.Node, dtype: ir.DataType) -> None:
    """For ops whose output type is an attribute (`rules.TYPED_BY_ATTRIBUTE`)."""
    if node.op_type == "Cast" and node.outputs[0].dtype == dtype:
        node.attributes["to"] = ir.AttrInt64("to", dtype.value)
    elif node.op_type == "ConstantOfShape":
        fill = node.attributes.get("value")
        array = np.zeros(1, np.float32) if fill is None else fill.as_tensor().numpy()
        if array.dtype == np.float32:
            node.attributes["value"] = ir.AttrTensor(
                "value", ir.tensor(array.astype(dtype.numpy()))
            )
