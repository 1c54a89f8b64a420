"""Decides which nodes of an ONNX graph compute in FP16 or BF16, which stay in FP32, and why.

Rules are functions in a list. Each looks at one node and returns the reason to keep it in FP32,
or None to pass; the first reason wins. A node that no rule keeps computes in 16 bits.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from tfmp.converters.onnx.fp16 import gaps
from tfmp.converters.onnx.fp16.divisors import ZERO_MATTERS, is_least_length, lowest_divisors
from tfmp.converters.onnx.fp16.edges import (
    REASONS,
    TABLE,
    VANISHES,
    bodies_giving,
    edges_of,
    has_type_of,
)
from tfmp.converters.onnx.fp16.report import QUANTIZED
from tfmp.converters.onnx.graph import (
    BF16,
    EXACT,
    FP16,
    FP32,
    HALVES,
    MOVERS,
    ConstantFacts,
    Slots,
    bodies_of,
    constant_facts,
    contains_floats,
    is_float,
    node_matcher,
    nodes_of,
    slots,
)
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import Batch


@dataclass(frozen=True)
class Decision:
    """The precision of one node.

    Attributes:
        dtype: FLOAT16, BFLOAT16 or FLOAT.
        reason: the reason for FLOAT; empty for 16 bits.
        narrow: whether its weights are stored in 16 bits although it computes in FLOAT: they are
            then those of a file that computes in 16 bits throughout.
    """

    dtype: ir.DataType
    reason: str = ""
    narrow: bool = False


Decisions = dict[ir.Node, Decision]
Rule = Callable[[ir.Node, "GraphView"], str | None]


# Ops whose result leaves the range of FP16 where an operand does, as masks make it.
_ADDITIVE = frozenset({"Add", "Sub", "Where", "Max", "Min", "Sum", "Clip", "Pad", *MOVERS})
# The same where that operand is a constant: a mask times -1e9 is a mask too.
_MASKING = _ADDITIVE | {"Mul"}


class GraphView:
    """The facts about a graph that rules may use, computed once and shared."""

    def __init__(self, model: ir.Model, target: str = gaps.ANY, low: ir.DataType = FP16) -> None:
        self.model = model
        self.target = target
        self.low, self.numbers = low, HALVES[low]
        self.nodes = nodes_of(model.graph)
        self._parents = {body: node for node in self.nodes for _, body in bodies_of(node)}

    def owner(self, graph: object) -> ir.Node | None:
        """The node that `graph` is a body of; None for the model's own graph."""
        return self._parents.get(graph)

    def enclosing(self, node: ir.Node) -> Iterator[ir.Node]:
        """The nodes whose subgraphs hold `node`, innermost first."""
        parent = self._parents.get(node.graph)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent.graph)

    def slots(self, node: ir.Node) -> Slots | None:
        """The declared types of the node's operands; None for an unknown op."""
        return slots(node, self.model.opset_imports.get(node.domain, 1), self.low)

    def constant(self, value: ir.Value | None) -> ConstantFacts | None:
        """The facts of a float32 initializer that no caller can override; None for other values."""
        if value is None or value.const_value is None or value.is_graph_input():
            return None
        return constant_facts(value, self.numbers) if is_float(value) else None

    @cached_property
    def out_of_range(self) -> Set[ir.Value]:
        """Values that leave the range of 16 bits: by a constant, as masks, or as integer sums."""
        found: set[ir.Value] = set()
        for node in self.nodes:
            carried = node.op_type in _ADDITIVE and not found.isdisjoint(node.inputs)
            masks = node.op_type in _MASKING and self.overflowing(node) is not None
            if carried or masks or _casts_integer_sums(node):
                found.update(node.outputs)
        return found

    @cached_property
    def lowest_divisors(self) -> Mapping[ir.Value, float]:
        """See `divisors.lowest_divisors`."""
        return lowest_divisors(self.nodes, self.numbers)

    def overflowing(self, node: ir.Node) -> ir.Value | None:
        """The first constant operand that becomes infinite in 16 bits."""
        for value in node.inputs:
            facts = self.constant(value)
            if facts is not None and facts.overflows:
                return value
        return None


def decide(
    model: ir.Model,
    keep_fp32: Sequence[str] = (),
    keep_nodes: Mapping[str, str] | None = None,
    target: str = gaps.ANY,
    edges: Batch | None = None,
    low: ir.DataType = FP16,
    narrow_weights: Collection[str] = (),
) -> Decisions:
    """Decides for every node that touches float32 tensors, subgraphs included.

    Args:
        model: the model, with types inferred and constants lifted to initializers.
        keep_fp32: regular expressions; a node whose name or Keras layer matches one anywhere, or
            whose op type matches one fully, stays in FP32.
        keep_nodes: names of further nodes that stay in FP32, with the reason.
        target: one of `gaps.TARGETS`: runtime that the file will run on, whose gaps count too.
        edges: inputs of a call of the data, or none: the model's edges stay in FP32, see
            `edges.edges_of`. None to decide about them like about all other nodes.
        low: the type of 16 bits, FLOAT16 or BFLOAT16.
        narrow_weights: names of those of `keep_nodes` whose weights are stored in 16 bits.

    Returns:
        A decision for each node that has a float32 operand whose type may change.

    Raises:
        InputError: a pattern is not a regular expression, or matches nothing.
    """
    view = GraphView(model, target, low)
    chosen = keep_nodes or {}
    edge = {} if edges is None else edges_of(model, edges, low)
    rules: list[Rule] = [
        *([_keep_rule(view.nodes, keep_fp32)] if keep_fp32 else ()),
        *([lambda node, _: chosen.get(node.name or "")] if chosen else ()),
        *RULES,
        *([lambda node, _: edge.get(node)] if edge else ()),
    ]
    decisions: Decisions = {}
    for node in view.nodes:
        if not _touches_float(node):
            continue
        told = ((rule, reason) for rule in rules if (reason := rule(node, view)))
        rule, reason = next(told, (None, ""))
        narrow = rule in _WITHOUT_KERNEL or (node.name or "") in narrow_weights
        decisions[node] = Decision(FP32, reason, narrow) if reason else Decision(low)
    _settle_movers(decisions, view)
    return decisions


def _touches_float(node: ir.Node) -> bool:
    return any(is_float(value) or contains_floats(value) for value in (*node.inputs, *node.outputs))


def _keep_rule(nodes: Sequence[ir.Node], patterns: Sequence[str]) -> Rule:
    for pattern in patterns:
        matches = node_matcher([pattern])
        if not any(matches(node) for node in nodes):
            layers = sorted({node.metadata_props.get("tfmp.layer", "") for node in nodes} - {""})
            known = layers or sorted({node.op_type for node in nodes})
            raise InputError(
                f"keep_fp32: {pattern!r} matches no node name, layer or op type. "
                f"Known, for example: {', '.join(known[:8])}."
            )
    kept = node_matcher(patterns)

    def rule(node: ir.Node, view: GraphView) -> str | None:
        hit = kept(node)
        return f"kept by request ({hit})" if hit else None

    return rule


def _unknown_op(node: ir.Node, view: GraphView) -> str | None:
    if view.slots(node) is None:
        return f"{node.domain}::{node.op_type} has no ONNX schema"
    return None


def _runtime_gap(node: ir.Node, view: GraphView) -> str | None:
    if node.domain != "":
        return None
    if view.low == BF16:
        return gaps.without_bf16(node.op_type, view.target)
    reduces = node.attributes.get_string("reduction", "none") != "none"
    opset = view.model.opset_imports.get("", 1)
    gap = gaps.gap_of(node.op_type, opset, view.target, reduces)
    return gap.describe() if gap else None


def has_typed_body(node: ir.Node, model: ir.Model) -> bool:
    """Whether the bodies of `node` may be rewritten: If, Loop, and Scan from opset 9 on."""
    if node.domain != "" or node.op_type not in ("If", "Loop", "Scan"):
        return False
    return node.op_type != "Scan" or model.opset_imports.get("", 1) >= 9


def _opaque_body(node: ir.Node, view: GraphView) -> str | None:
    """Bodies of other ops, and everything inside them, keep the types they declare."""
    outers = (node, *view.enclosing(node))
    for outer in outers:
        if any(bodies_of(outer)) and not has_typed_body(outer, view.model):
            return f"inside {outer.op_type}, whose body declares its own types"
    return None


def _containers(node: ir.Node, view: GraphView) -> str | None:
    if has_typed_body(node, view.model):
        return None
    if any(contains_floats(value) for value in (*node.inputs, *node.outputs)):
        return "sequences and optionals keep their element type"
    return None


# Ops whose sums of integers a Cast makes floats of, before a scale makes them small.
_INTEGER_SUMS = frozenset({"ConvInteger", "MatMulInteger"})


def _casts_integer_sums(node: ir.Node) -> bool:
    source = node.inputs[0].producer() if node.op_type == "Cast" and node.inputs[0] else None
    return source is not None and source.op_type in _INTEGER_SUMS


def _quantization(node: ir.Node, view: GraphView) -> str | None:
    if re.search("[Qq]uantize|QLinear|Integer", node.op_type) or _casts_integer_sums(node):
        return QUANTIZED
    makers = [value.producer() for value in node.inputs if is_float(value)]
    given = {maker.op_type if maker else "" for maker in makers}
    taken = {user.node.op_type for value in node.outputs for user in value.uses()}
    # Runtimes make integer arithmetic of what lies between, unless a Cast does.
    between = given == {"DequantizeLinear"} or taken == {"QuantizeLinear"}
    return QUANTIZED if between or "DynamicQuantizeLinear" in given else None


def _no_float16(node: ir.Node, view: GraphView) -> str | None:
    described = view.slots(node)
    if described is None or described.takes_half or has_typed_body(node, view.model):
        return None
    # What an op always writes in float32, as LayerNormalization its statistics, does not matter.
    bound = [
        *zip(node.inputs, described.inputs, strict=True),
        *(
            (value, slot)
            for value, slot in zip(node.outputs, described.outputs, strict=True)
            if described.follows_input(slot) or node.op_type in TYPED_BY_ATTRIBUTE
        ),
    ]
    if any(is_float(value) and slot.variable and not slot.half for value, slot in bound):
        opset = view.model.opset_imports.get("", 1)
        return f"{node.op_type} of opset {opset} is not defined for {view.numbers.name}"
    return None


def _float_attribute(node: ir.Node, view: GraphView) -> str | None:
    """Attributes that hold tensors have to have their operands' type."""
    for name, attribute in node.attributes.items():
        tensor = attribute.as_tensor() if attribute.type == ir.AttributeType.TENSOR else None
        if tensor is not None and tensor.dtype == FP32 and node.op_type not in TYPED_BY_ATTRIBUTE:
            return f"attribute {name} of {node.op_type} holds float32"
    return None


def _constant_overflows(node: ir.Node, view: GraphView) -> str | None:
    value = view.overflowing(node)
    if value is None:
        return None
    peak, numbers = constant_facts(value, view.numbers).peak, view.numbers
    most = f"{numbers.title}'s {numbers.max:.5g}"
    return f"constant {value.name} reaches {peak:.4g}, past {most}"


def _input_out_of_range(node: ir.Node, view: GraphView) -> str | None:
    beyond = next((value for value in node.inputs if value in view.out_of_range), None)
    return f"{beyond.name} can be past the range of {view.numbers.title}" if beyond else None


def _constant_vanishes(node: ir.Node, view: GraphView) -> str | None:
    for index, value in enumerate(() if is_least_length(node) else node.inputs):
        facts = view.constant(value)
        if facts is None or not facts.vanished:
            continue
        if facts.vanished == facts.nonzero or ZERO_MATTERS.get(node.op_type) == index:
            return (
                f"constant {value.name} ({facts.smallest:.4g}) becomes zero in {view.numbers.title}"
            )
    return None


# Ops whose first two inputs are factors: errors of these are theirs. A sum hides those of a small
# constant.
_PRODUCTS = frozenset({"Mul", "Div", "MatMul", "Gemm", "Conv", "ConvTranspose"})

# As coarse as eight spacings of an FP16 number.
_MOST_LOST = 2.0**-8


def _constant_is_imprecise(node: ir.Node, view: GraphView) -> str | None:
    for value in node.inputs[:2] if node.op_type in _PRODUCTS else ():
        facts = view.constant(value)
        if value is not None and facts is not None and facts.lost > _MOST_LOST:
            return (
                f"constant {value.name} lies below {view.numbers.title}'s normal numbers, and is "
                f"off by {facts.lost:.2g} there"
            )
    return None


def _divisor_is_flushed(node: ir.Node, view: GraphView) -> str | None:
    values = [value for value in (*node.inputs, *node.outputs) if value in view.lowest_divisors]
    if not values:
        return None
    floor = view.lowest_divisors[values[0]]
    return (
        f"only {floor:.3g} keeps a divisor from zero, which is zero where hardware flushes "
        f"subnormal {view.numbers.title} numbers"
    )


# Ops whose output type is an attribute that the rewriter sets (see `fp16._set_output_type`).
TYPED_BY_ATTRIBUTE = frozenset({"Cast", "ConstantOfShape"})


def _typed_by_attribute(node: ir.Node, view: GraphView) -> str | None:
    described = view.slots(node)
    if described is None or not described.has_free_output:
        return None
    if node.op_type in TYPED_BY_ATTRIBUTE or has_typed_body(node, view.model):
        return None
    free = [
        slot
        for value, slot in zip(node.outputs, described.outputs, strict=True)
        if is_float(value) and not described.follows_input(slot)
    ]
    if any(slot.half or slot.variable is None for slot in free):
        return f"{node.op_type} chooses its output type itself"
    return None


_COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})


def _counts(node: ir.Node, view: GraphView) -> str | None:
    """Integers that are cast to be compared, as loops do: FP16 holds all to 2048, BF16 to 256."""
    if node.op_type in _COMPARISONS and node.domain == "":
        whole = any(_from_integers(value) for value in node.inputs)
    else:
        readers = node.outputs[0].consumers()
        whole = (
            _from_integers(node.outputs[0])
            and bool(readers)
            and all(reader.op_type in _COMPARISONS for reader in readers)
        )
    most = 2 ** (view.numbers.fraction_bits + 1)
    told = f"compares integers, which {view.numbers.title} holds only to {most}"
    return told if whole else None


def _from_integers(value: ir.Value | None) -> bool:
    cast = value.producer() if value is not None else None
    if cast is None or cast.op_type != "Cast" or cast.domain != "":
        return False
    source = cast.inputs[0]
    return source is not None and source.dtype is not None and source.dtype.is_integer()


RULES: tuple[Rule, ...] = (
    _unknown_op,
    _runtime_gap,
    _opaque_body,
    _containers,
    _quantization,
    _counts,
    _float_attribute,
    _typed_by_attribute,
    _no_float16,
    _constant_overflows,
    _input_out_of_range,
    _constant_vanishes,
    _constant_is_imprecise,
    _divisor_is_flushed,
)


# Nothing about numbers keeps a node in FP32 where these do.
_WITHOUT_KERNEL = (_runtime_gap, _no_float16)

_SETTLED = "between FP32 nodes, and exact in either precision"


def _settle_movers(decisions: Decisions, view: GraphView) -> None:
    """Lets ops that only move or pick values join FP32 neighbours where that saves casts.

    One that reads a table of weights stays: in FP32 the table takes twice the room.
    """
    movers = [
        node
        for node, decision in decisions.items()
        if node.op_type in EXACT and decision.dtype == view.low and not _reads_table(node, view)
    ]
    for forwards in (True, False):
        for node in movers if forwards else movers[::-1]:
            reads = {value for value in node.inputs if is_float(value)}
            before = [_written_as(value, decisions, view) for value in reads]
            kept = any(output.is_graph_output() for output in node.outputs)
            after = {
                decisions[user].dtype
                for output in node.outputs
                for user in output.consumers()
                if user in decisions
            } | ({_boundary(node.graph, decisions, view)} if kept else set())

            def casts(dtype: ir.DataType, before: list = before, after: set = after) -> int:
                into = sum(1 for other in before if other not in (None, dtype))
                return into + len(after - {dtype})

            # Forwards ties go to FP32, so that it reaches through chains of movers; backwards they
            # go to 16 bits, which takes back what did not lead to another FP32 node.
            saved = casts(view.low) - casts(FP32)
            if saved > 0 or (forwards and not saved):
                decisions[node] = Decision(FP32, _SETTLED)
            else:
                decisions[node] = Decision(view.low)


def _reads_table(node: ir.Node, view: GraphView) -> bool:
    sizes = (facts.size for facts in map(view.constant, node.inputs) if facts is not None)
    return max(sizes, default=0) > TABLE


def _boundary(graph: object, decisions: Decisions, view: GraphView) -> ir.DataType:
    """The precision of a graph's inputs and outputs; a body takes the precision of its node."""
    return decisions.get(view.owner(graph), Decision(FP32)).dtype


def _written_as(value: ir.Value, decisions: Decisions, view: GraphView) -> ir.DataType | None:
    """The precision `value` has where it is made; None for constants, which exist in both."""
    if value.const_value is not None and not value.is_graph_input():
        return None
    producer = value.producer()
    if producer is None:
        return _boundary(value.graph, decisions, view)
    if has_typed_body(producer, view.model) and not has_type_of(producer, [value]):
        _, (inner,) = next(bodies_giving(producer, [value]))
        return _written_as(inner, decisions, view)
    return decisions[producer].dtype if producer in decisions else FP32


def at_edges(decisions: Decisions) -> dict[str, str]:
    """The reasons of the nodes that are in FP32 at the edges of the model, by their names."""
    return {
        str(node.name): decision.reason
        for node, decision in decisions.items()
        if decision.reason in (*REASONS, VANISHES)
    }


def islands(decisions: Decisions) -> Iterable[tuple[ir.Node, Decision]]:
    """The nodes that stay in FP32, without those that only move or pick values."""
    return (
        (node, decision)
        for node, decision in decisions.items()
        if decision.dtype == FP32 and decision.reason != _SETTLED and node.op_type not in MOVERS
    )
