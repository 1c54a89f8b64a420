"""GELU in one op, where ONNX has it: its parts cancel, and cubes overflow in FP16 from 41 on.

The exact form is x / 2 * (1 + erf(x / sqrt(2))), the other one
x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) (Hendrycks and Gimpel, 2016). Products
are compared as sets of factors, because every exporter writes them in another order.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

import onnx_ir as ir

from tfmp.converters.onnx.graph import Pattern, is_number, number_of, operand, operands, private

_GELU_OPSET = 20
_CUBIC = 0.044715


def rewrite_gelu(pattern: Pattern) -> None:
    """Puts Gelu in the place of its formulas."""
    if pattern.opset < _GELU_OPSET:
        return
    for node in pattern.nodes("Mul", "Div"):
        found = _gelu(pattern, node)
        if found is None:
            continue
        value, approximate = found
        result = pattern.add(node, "Gelu", [value], "gelu", approximate=approximate)
        pattern.replace(node.outputs[0], result, "its formula became Gelu")


@dataclass
class _Product:
    """A product: a number times values, and the nodes that multiply them."""

    number: float = 1.0
    factors: Counter[ir.Value] = field(default_factory=Counter)
    nodes: list[ir.Node] = field(default_factory=list)

    def is_close(self, number: float) -> bool:
        return math.isclose(self.number, number, rel_tol=1e-4)


def _product(pattern: Pattern, value: ir.Value | None, root: bool = True) -> _Product:
    """A value as a product, as far as its factors are read by nothing else."""
    found = _Product()
    number = number_of(value)
    if number is not None:
        found.number = number
        return found
    assert value is not None  # no op here leaves an operand out
    node = pattern.made_by(value, "Mul", "Div", "Neg", "Pow")
    if node is None or not (root or len(value.uses()) == 1):
        found.factors[value] += 1
        return found
    if node.op_type == "Pow":
        exponent = number_of(node.inputs[1])
        if exponent not in (2, 3):
            found.factors[value] += 1
            return found
        found.factors[operand(node, 0)] += int(exponent)
    elif node.op_type == "Neg":
        _times(found, _product(pattern, node.inputs[0], False), -1)
    elif node.op_type == "Div":
        divisor = number_of(node.inputs[1])
        if not divisor:
            found.factors[value] += 1
            return found
        _times(found, _product(pattern, node.inputs[0], False), 1 / divisor)
    else:
        for factor in node.inputs:
            _times(found, _product(pattern, factor, False), 1)
    found.nodes.append(node)
    return found


def _times(product: _Product, other: _Product, number: float) -> None:
    product.number *= other.number * number
    product.factors += other.factors
    product.nodes += other.nodes


def _gelu(pattern: Pattern, node: ir.Node) -> tuple[ir.Value, str] | None:
    """(x, form) where a product is x / 2 * (1 + erf or tanh)."""
    product = _product(pattern, node.outputs[0])
    if not product.is_close(0.5) or sorted(product.factors.values()) != [1, 1]:
        return None
    for gate, value in (tuple(product.factors), tuple(product.factors)[::-1]):
        opened = _gate(pattern, gate)
        if opened is None:
            continue
        adder, bend, sign = opened
        inside = _product(pattern, bend.inputs[0])
        nodes = [*product.nodes, adder, bend]
        if bend.op_type == "Erf":
            matched = inside.is_close(sign * math.sqrt(0.5)) and inside.factors == {value: 1}
            cubic: list[ir.Node] | None = inside.nodes if matched else None
        else:
            cubic = _cubic(pattern, inside, value) if sign == 1 else None
        if cubic is not None and private([*nodes, *cubic], node):
            return value, "none" if bend.op_type == "Erf" else "tanh"
    return None


def _gate(pattern: Pattern, value: ir.Value) -> tuple[ir.Node, ir.Node, int] | None:
    """The nodes of 1 + f(u) or 1 - f(u), and the sign."""
    adder = pattern.made_by(value, "Add", "Sub")
    if adder is None:
        return None
    for one, other in operands(adder):
        bend = pattern.made_by(other, "Erf", "Tanh")
        if bend is not None and is_number(one, 1, 0):
            return adder, bend, 1 if adder.op_type == "Add" else -1
    return None


def _cubic(pattern: Pattern, inside: _Product, value: ir.Value) -> list[ir.Node] | None:
    """The nodes of sqrt(2 / pi) * (x + 0.044715 x**3), or of it with x taken out."""
    if not inside.is_close(math.sqrt(2 / math.pi)):
        return None
    rest = +inside.factors
    alone = rest.pop(value, 0) == 0
    if list(rest.values()) != [1]:
        return None
    adder = pattern.made_by(next(iter(rest)), "Add")
    if adder is None:
        return None
    for linear, power in operands(adder):
        product = _product(pattern, power)
        starts = linear is value if alone else is_number(linear, 1, 0)
        raised = {value: 3 if alone else 2}
        if starts and product.is_close(_CUBIC) and product.factors == raised:
            return [*inside.nodes, adder, *product.nodes]
    return None
