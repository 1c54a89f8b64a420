"""Divisors that are kept from zero by a constant that FP16 holds as a subnormal number.

Hardware that flushes subnormal numbers takes such a constant, and the divisor, for zero: 0 / 0 is
NaN. Nodes that make or read such a divisor stay in FP32; as soon as a Sqrt takes the constant past
the smallest normal number, FP16 is safe again. The least length that a vector is divided by is
raised to that number where it is FP16: elements of shorter vectors are subnormal themselves.

The epsilon of a normalization is float32 in every kernel, but some round 1 / deviation to FP16
(WebGPU: core/providers/webgpu/nn/layer_norm.cc), where rows of one value must not make it infinite.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import MOVERS, new_constant, number_of
from tfmp.shared.numerics import FLOAT16, FloatFormat

# Where an operand that becomes zero changes the result beyond rounding: a / 0, log 0, 0 ** -1.
ZERO_MATTERS = {"Div": 1, "Reciprocal": 0, "Log": 0, "Pow": 0, "ReduceLogSum": 0}

_NORMALIZATIONS = frozenset(
    "GroupNormalization InstanceNormalization LayerNormalization RMSNormalization".split()
)
_LENGTHS = frozenset({"ReduceL1", "ReduceL2"})
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
        epsilon = node.attributes.get_float("epsilon", 1e-5)
        if node.domain == "" and node.op_type in _NORMALIZATIONS and epsilon < _LEAST_EPSILON:
            node.attributes["epsilon"] = ir.AttrFloat32("epsilon", _LEAST_EPSILON)
            raised[f"{node.op_type}: its epsilon {epsilon:.3g} became {_LEAST_EPSILON:.3g}"] += 1
    return [
        f"{text}, so that 1 / deviation stays in the range of FP16"
        + (f" ({count} times)" if count > 1 else "")
        for text, count in raised.items()
    ]


def raise_least_lengths(nodes: Iterable[ir.Node]) -> None:
    """Raises the least lengths that vectors are divided by to FP16's smallest normal number.

    Args:
        nodes: those that compute in FP16.
    """
    least = FLOAT16.smallest_normal
    for node in filter(is_least_length, nodes):
        for index, value in enumerate(node.inputs):
            number = number_of(value)
            if number is not None and 0 < number < least and node.graph is not None:
                name = f"{node.outputs[0].name}_least"
                raised = new_constant(node.graph, name, np.array(least, np.float32))
                node.replace_input_with(index, raised)


def is_least_length(node: ir.Node) -> bool:
    """Whether a node is the larger of a length and something else, as a rule a constant."""
    producers = [value.producer() for value in node.inputs if value is not None]
    lengths = [one for one in producers if one is not None and one.op_type in _LENGTHS]
    return node.op_type == "Max" and bool(lengths)


def lowest_divisors(nodes: Iterable[ir.Node], low: FloatFormat = FLOAT16) -> dict[ir.Value, float]:
    """The constants that keep divisors from zero, where they are subnormal in 16 bits.

    Args:
        nodes: in order, bodies included.
        low: the format of 16 bits.

    Returns:
        The constant, or its root, by the values that are at least that large and decide about a
        divisor.
    """
    listed = [node for node in nodes if node.domain == ""]
    floors: dict[ir.Value, float] = {}
    for node in listed:
        floor = _floor(node, floors)
        if floor is not None and floor > 0:
            floors[node.outputs[0]] = floor
    lowest = {value: floor for value, floor in floors.items() if floor < low.smallest_normal}
    if not lowest:
        return {}
    matters: set[ir.Value] = set()
    for node in reversed(listed):
        if any(_is_sensitive(user, index, matters) for user, index in node.outputs[0].uses()):
            matters.add(node.outputs[0])
    return {value: floor for value, floor in lowest.items() if value in matters}


# Of what is at least a floor, these are at least that floor, too; sums, where no term is negative.
_SUMS = frozenset({"CumSum", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Sum"})
_CARRIERS = MOVERS | _SUMS | {"Abs", "Neg"}


def _floor(node: ir.Node, floors: Mapping[ir.Value, float]) -> float | None:
    """The number that the results of a node are at least as large as, where constants tell."""
    known = [floors.get(value) for value in node.inputs if value is not None]
    found = [floor for floor in known if floor is not None]
    number = next((n for value in node.inputs if (n := number_of(value)) is not None), None)
    match node.op_type:
        case "Add" if number is not None or len(found) == 2:
            return max([*found, *([] if number is None else [number])])
        case "Max" if not is_least_length(node):
            return max([*found, *([] if number is None else [number])], default=None)
        case "Clip" if len(node.inputs) > 1:
            return number_of(node.inputs[1])
        case "Where":
            return _chosen_floor(node)
        case "Sqrt" if found:
            return found[0] ** 0.5
        case "Mul" if len(found) == 2:
            return found[0] * found[1]
        case "Mul" if found and number is not None:
            return found[0] * abs(number)
        case "Div" if known[0] is not None and number:
            return known[0] / abs(number)
        case op_type if op_type in _CARRIERS and known:
            return known[0] if op_type != "Concat" else min(found) if None not in known else None
    return None


def _chosen_floor(node: ir.Node) -> float | None:
    """The constant that a Where takes in the place of smaller values: Where(x < c, c, x)."""
    compared = node.inputs[0].producer() if node.inputs[0] is not None else None
    for value, other in (node.inputs[1:3], node.inputs[2:0:-1]):
        number = number_of(value)
        if number is not None and compared is not None and other in compared.inputs:
            return number
    return None


def _is_sensitive(user: ir.Node, index: int, matters: set[ir.Value]) -> bool:
    if user.domain != "":
        return False
    if ZERO_MATTERS.get(user.op_type) == index:
        return True
    first = user.op_type in _CARRIERS | {"Div"} and index == 0
    carries = first or user.op_type in ("Add", "Concat", "Max", "Mul", "Sqrt", "Where")
    return carries and user.outputs[0] in matters
