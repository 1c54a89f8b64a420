"""Divisors that are kept from zero by a constant that FP16 holds as a subnormal number.

Hardware that flushes subnormal numbers takes such a constant, and the divisor, for zero: 0 / 0 is
NaN. Nodes that make or read such a divisor stay in FP32; as soon as a Sqrt takes the constant past
the smallest normal number, FP16 is safe again.

The epsilon of a normalization is float32 in every kernel, but some round 1 / deviation to FP16
(WebGPU: core/providers/webgpu/nn/layer_norm.cc), where rows of one value must not make it infinite.
"""

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from tfmp.converters.onnx.graph import MOVERS, number_of, real
from tfmp.shared.numerics import FLOAT16, FloatFormat

# Where an operand that becomes zero changes the result beyond rounding: a / 0, log 0, 0 ** -1.
ZERO_MATTERS = {"Div": 1, "Reciprocal": 0, "Log": 0, "Pow": 0}

_NORMALIZATIONS = frozenset(
    "GroupNormalization InstanceNormalization LayerNormalization RMSNormalization".split()
)
# Its root's inverse is below 65504, by a hundredth.
_LEAST_EPSILON = 2.4e-10


def raise_epsilons(nodes: Iterable[ir.Node]) -> list[str]:
    """Raises epsilons that let 1 / deviation pass the range of FP16.

    Args:
        nodes: those that compute in FP16.

    Returns:
        A sentence for each op and epsilon.
    """
    raised: Counter[str] = Counter()
    for node in nodes:
        epsilon = real(node, "epsilon", 1e-5)
        if node.domain == "" and node.op_type in _NORMALIZATIONS and epsilon < _LEAST_EPSILON:
            node.attributes["epsilon"] = ir.AttrFloat32("epsilon", _LEAST_EPSILON)
            raised[f"{node.op_type}: its epsilon {epsilon:.3g} became {_LEAST_EPSILON:.3g}"] += 1
    return [
        f"{text}, so that 1 / deviation stays in the range of FP16"
        + (f" ({count} times)" if count > 1 else "")
        for text, count in raised.items()
    ]


def lowest_divisors(nodes: Iterable[ir.Node], low: FloatFormat = FLOAT16) -> dict[ir.Value, float]:
    """The constants that keep divisors from zero, where they are subnormal in 16 bits.

    Args:
        nodes: in order, bodies included.
        low: the format of 16 bits.

    Returns:
        The constant, or its root, by the values that are at least that large and decide about a
        divisor.
    """
    listed = list(nodes)
    lowest: dict[ir.Value, float] = {}
    for node in listed:
        if node.domain != "":
            continue
        floor = _floor(node, lowest)
        if floor is not None and 0 < floor < low.smallest_normal:
            lowest[node.outputs[0]] = floor
    matters: set[ir.Value] = set()
    for node in reversed(listed):
        if any(_is_sensitive(user, index, matters) for user, index in node.outputs[0].uses()):
            matters.add(node.outputs[0])
    return {value: floor for value, floor in lowest.items() if value in matters}


def _floor(node: ir.Node, lowest: dict[ir.Value, float]) -> float | None:
    if node.op_type in ("Add", "Max") and len(node.inputs) == 2:
        return next((n for value in node.inputs if (n := number_of(value)) is not None), None)
    if node.op_type == "Clip" and len(node.inputs) > 1:
        return number_of(node.inputs[1])
    source = node.inputs[0] if node.inputs else None
    if source is None or source not in lowest:
        return None
    if node.op_type == "Sqrt":
        return lowest[source] ** 0.5
    return lowest[source] if node.op_type in MOVERS else None


def _is_sensitive(user: ir.Node, index: int, matters: set[ir.Value]) -> bool:
    if user.domain != "":
        return False
    if ZERO_MATTERS.get(user.op_type) == index:
        return True
    carries = user.op_type == "Sqrt" or (user.op_type in MOVERS and index == 0)
    return carries and user.outputs[0] in matters
