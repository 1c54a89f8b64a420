"""Turns LSTM, GRU and RNN into a Scan over their steps, with states that are rounded in between.

A GPU keeps hidden and cell state in FP16 from step to step. It sums gates in FP32, and the next
state too, before it rounds that once.
"""

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from tfmp.converters.onnx.emulation.sum_builder import Attribute, SumBuilder
from tfmp.converters.onnx.graph import FP32, NotStaticError, operand, optional

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})

_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_SIMPLE = {"Sigmoid", "Tanh", "Relu"}  # activations without parameters of their own
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

INT64 = ir.DataType.INT64


def unroll(
    model: ir.Model,
    nodes: Mapping[ir.Node, ir.DataType],
    coarse: bool = False,
) -> tuple[dict[ir.Node, ir.DataType], list[str]]:
    """Replaces recurrent nodes by Scans that round their states.

    Args:
        model: a float32 model, which is changed in place.
        nodes: LSTM, GRU and RNN nodes anywhere in the model, with the type of 16 bits that each
            computes in.
        coarse: whether activations are approximations, see `facts.Kind.COARSE`.

    Returns:
        The matrix products inside, each with its type of 16 bits, and the op types of nodes that
        are left as they are: those with clipping, peepholes, coupled gates, activations that have
        parameters or batch-major layout, and nodes of an opset older than 10 or, with lengths, 11.
    """
    products: dict[ir.Node, ir.DataType] = {}
    left = set()
    for index, (node, half) in enumerate(nodes.items()):
        try:
            _check(model, node)
            build = SumBuilder(model, node, 1, f"tfmp_steps_{index}", half)
            inner: list[ir.Node] = []
            built = _unrolled(build, node, inner, coarse)
        except NotStaticError:
            left.add(node.op_type)
            continue
        products |= dict.fromkeys(inner, build.half)
        for old, new in zip(node.outputs, built, strict=False):
            new.shape = old.shape
            new.name = old.name or new.name
            old.replace_all_uses_with(new)
        assert node.graph is not None
        node.graph.remove(node, safe=True)
    return products, sorted(left)


def _check(model: ir.Model, node: ir.Node) -> None:
    refused = (
        # Range is of opset 11, and Slice with inputs of 10.
        model.opset_imports.get("", 1) < (10 if optional(node, 4) is None else 11),
        "clip" in node.attributes,
        node.attributes.get_int("input_forget", 0) != 0,
        node.attributes.get_int("layout", 0) != 0,
        node.op_type == "LSTM" and optional(node, 7) is not None,
        not set(_activations(node, 0) + _activations(node, 1)) <= _SIMPLE,
    )
    if any(refused) or operand(node, 2).shape is None:
        raise NotStaticError


def _activations(node: ir.Node, direction: int) -> list[str]:
    defaults = _ACTIVATIONS[node.op_type]
    if "activations" not in node.attributes:
        return defaults
    given = list(node.attributes["activations"].as_strings())
    return given[len(defaults) * direction :][: len(defaults)] or defaults


def _unrolled(
    build: SumBuilder, node: ir.Node, products: list[ir.Node], coarse: bool
) -> list[ir.Value]:
    """The node's outputs: Y, Y_h and, of an LSTM, Y_c."""
    way = node.attributes.get_string("direction", "forward")
    reverses = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[way]
    parts = [
        _Direction(build, node, index, reverse, coarse).run(products)
        for index, reverse in enumerate(reverses)
    ]
    axes = [1, *[0] * (len(parts[0]) - 1)]
    return [
        build.op(
            "Concat",
            *(build.op("Unsqueeze", part[i], build.integers([axis])) for part in parts),
            axis=axis,
        )
        for i, axis in enumerate(axes)
    ]


class _Direction:
    """One direction of one node."""

    def __init__(
        self, build: SumBuilder, node: ir.Node, index: int, reverse: int, coarse: bool
    ) -> None:
        self._build, self._node, self._index, self._reverse = build, node, index, reverse
        self._coarse = coarse
        self._activations = _activations(node, index)
        self._gates = _GATES[node.op_type]
        hidden = operand(node, 2).shape[-1]
        if not isinstance(hidden, int):
            raise NotStaticError
        self._hidden = hidden
        self._sizes = build.integers([hidden] * self._gates)
        self._flag = build.integers([1])
        self._recurrent = build.transpose(self._own(operand(node, 2)), [1, 0])
        self._late: ir.Value | None = None  # the bias that a GRU adds before it resets

    def run(self, products: list[ir.Node]) -> list[ir.Value]:
        """All hidden states, the last one and, of an LSTM, the last cell state."""
        build, node = self._build, self._node
        x = operand(node, 0)
        inner = build.transpose(self._own(operand(node, 1)), [1, 0])
        inner.shape = ir.Shape([x.shape[-1] if x.shape is not None else None, None])
        given = build.op("MatMul", x, inner)
        products.append(_producer(given))
        bias = optional(node, 3)
        if bias is not None:
            given = build.op("Add", given, self._biases(self._own(bias)))
        states = [self._initial(x, index) for index in ((5, 6) if self._is("LSTM") else (5,))]
        scanned = [given]
        lengths = optional(node, 4)
        if lengths is not None:
            count = build.op("Squeeze", build.sizes(x, 0, 1), dtype=INT64)
            zero, one = (build.op("Squeeze", build.integers([n]), dtype=INT64) for n in (0, 1))
            scanned.append(build.op("Range", zero, count, one, dtype=INT64))
            lengths = build.op("Cast", lengths, dtype=INT64, to=INT64.value)
        body = self._body(len(states), lengths, products)
        ways = [self._reverse]
        outputs = build.outputs(
            "Scan",
            [*states, *scanned],
            len(states) + 1,
            body=body,
            num_scan_inputs=len(scanned),
            scan_input_directions=ways * len(scanned),
            scan_output_directions=ways,
        )
        return [outputs[-1], *outputs[:-1]]

    def _is(self, op_type: str) -> bool:
        return self._node.op_type == op_type

    def _own(self, value: ir.Value) -> ir.Value:
        """This direction's part of a weight or state."""
        index = self._build.op("Squeeze", self._build.integers([self._index]), dtype=INT64)
        return self._build.op("Gather", value, index, axis=0)

    def _biases(self, bias: ir.Value) -> ir.Value:
        """Both biases in one, except a GRU's bias of the new state, which the reset gate scales."""
        build, size = self._build, self._gates * self._hidden
        halves = [
            build.op("Slice", bias, build.integers([start]), build.integers([start + size]))
            for start in (0, size)
        ]
        if not (self._is("GRU") and self._node.attributes.get_int("linear_before_reset", 0)):
            return build.op("Add", *halves)
        split = build.integers([2 * self._hidden]), build.integers([3 * self._hidden])
        self._late = build.op("Slice", halves[1], *split)
        zeros = build.floats([0.0] * self._hidden)
        early = build.op("Slice", halves[1], build.integers([0]), split[0])
        return build.op("Add", halves[0], build.op("Concat", early, zeros, axis=0))

    def _initial(self, x: ir.Value, index: int) -> ir.Value:
        given = optional(self._node, index)
        if given is not None:
            return self._own(given)
        hidden = self._build.integers([self._hidden])
        shape = self._build.op("Concat", self._build.sizes(x, 1, 2), hidden, dtype=INT64, axis=0)
        return self._build.op("ConstantOfShape", shape)

    def _body(self, states: int, lengths: ir.Value | None, products: list[ir.Node]) -> ir.Graph:
        """One step: states and this step's input to new states and output."""
        build = self._build
        before = [build.value("state", FP32) for _ in range(states)]
        given = build.value("given", FP32)
        inputs = [*before, given]
        body = _Body(build, products, self._recurrent, self._hidden, self._coarse)
        step = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self._node.op_type]
        after = [body.rounded(state) for state in step(body, given, before)]
        output = after[0]
        if lengths is not None:
            moment = build.value("moment", INT64)
            inputs.append(moment)
            early = body.op("Less", moment, lengths, dtype=ir.DataType.BOOL)
            active = body.op("Unsqueeze", early, self._flag, dtype=ir.DataType.BOOL)
            after = [
                body.op("Where", active, new, old) for new, old in zip(after, before, strict=True)
            ]
            output = body.op("Where", active, output, build.floats(0.0))
        # Outputs of a body are values of their own; ONNX Runtime's Scan asks for their rank.
        outputs = [body.op("Identity", value) for value in (*after, output)]
        for value in outputs:
            value.shape = ir.Shape([None, self._hidden])
        return ir.Graph(inputs, outputs, nodes=body.nodes, name=build.name("steps"))

    def _lstm(
        self, body: "_Body", given: ir.Value, states: Sequence[ir.Value]
    ) -> tuple[ir.Value, ...]:
        hidden, cell = states
        gate, new, squash = self._activations
        total = body.op("Add", given, body.product(hidden))
        i, o, f, c = body.split(total, self._sizes, 4)
        kept = body.op("Mul", body.active(gate, f), cell)
        added = body.op("Mul", body.active(gate, i), body.active(new, c))
        cell = body.op("Add", kept, added)
        return body.op("Mul", body.active(gate, o), body.active(squash, cell)), cell

    def _gru(
        self, body: "_Body", given: ir.Value, states: Sequence[ir.Value]
    ) -> tuple[ir.Value, ...]:
        (hidden,) = states
        gate, new = self._activations
        z, r, h = body.split(given, self._sizes, 3)
        if self._node.attributes.get_int("linear_before_reset", 0):
            past_z, past_r, past = body.split(body.product(hidden), self._sizes, 3)
            if self._late is not None:
                past = body.op("Add", past, self._late)
            reset = body.active(gate, body.op("Add", r, past_r))
            past = body.op("Mul", reset, past)
        else:
            build, size = self._build, self._hidden
            ends = build.integers([2 * size]), build.integers([3 * size])
            gates = build.op("Slice", self._recurrent, build.integers([0]), ends[0], self._flag)
            rest = build.op("Slice", self._recurrent, *ends, self._flag)
            halves = build.integers([size, size])
            past_z, past_r = body.split(body.product(hidden, gates), halves, 2)
            reset = body.active(gate, body.op("Add", r, past_r))
            past = body.product(body.op("Mul", reset, hidden), rest)
        update = body.active(gate, body.op("Add", z, past_z))
        fresh = body.active(new, body.op("Add", h, past))
        change = body.op("Mul", update, body.op("Sub", hidden, fresh))
        return (body.op("Add", fresh, change),)

    def _rnn(
        self, body: "_Body", given: ir.Value, states: Sequence[ir.Value]
    ) -> tuple[ir.Value, ...]:
        total = body.op("Add", given, body.product(states[0]))
        return (body.active(self._activations[0], total),)


class _Body:
    """Nodes of one step."""

    def __init__(
        self,
        build: SumBuilder,
        products: list[ir.Node],
        recurrent: ir.Value,
        hidden: int,
        coarse: bool,
    ) -> None:
        self.nodes: list[ir.Node] = []
        self._build, self._products, self._recurrent = build, products, recurrent
        self._hidden, self._coarse = hidden, coarse

    def op(
        self, op_type: str, *inputs: ir.Value, dtype: ir.DataType = FP32, **attributes: Attribute
    ) -> ir.Value:
        self.nodes.append(self._build.node(op_type, inputs, [dtype], attributes))
        return self.nodes[-1].outputs[0]

    def active(self, op_type: str, value: ir.Value) -> ir.Value:
        """An activation, of nine significant bits where it is an approximation."""
        result = self.op(op_type, value)
        if not self._coarse or op_type == "Relu":
            return result
        # Veltkamp's splitting: what is left of 24 bits when 15 of them cancel.
        large = self.op("Mul", result, self._build.floats(2.0**15 + 1))
        return self.op("Sub", large, self.op("Sub", large, result))

    def split(self, value: ir.Value, sizes: ir.Value, count: int) -> Sequence[ir.Value]:
        node = self._build.node("Split", [value, sizes], [FP32] * count, {"axis": -1})
        self.nodes.append(node)
        return node.outputs

    def product(self, state: ir.Value, weights: ir.Value | None = None) -> ir.Value:
        weights = weights if weights is not None else self._recurrent
        # The rewrite of products has to know the shapes.
        state.shape, weights.shape = ir.Shape([None, self._hidden]), ir.Shape([self._hidden, None])
        value = self.op("MatMul", state, weights)
        self._products.append(self.nodes[-1])
        return value

    def rounded(self, value: ir.Value) -> ir.Value:
        half = self._build.half
        narrow = self.op("Cast", value, dtype=half, to=half.value)
        return self.op("Cast", narrow, to=FP32.value)


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node
