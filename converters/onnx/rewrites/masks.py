"""Attention masks that FP16 can hold.

Attention masks are numbers like -1e9, which FP16 turns into -inf: a row that is masked throughout
then becomes NaN. Selecting FP16's most negative number instead needs no FP32 at all:

- `Where(keep, score, c)` before a Softmax, with c past the range: c becomes -65504.
- `score + masked * c` before a Softmax, where `masked` can only be 0 or 1: becomes
  `Where(masked, -65504, score)`.

Both are exact in effect: no FP16 score is less than -65504, and beside any score above -65400 a
masked one has probability exp(-104) or less, which is 0 in float32. A row that is masked throughout
is uniform, as softmax(score - 1e9) is, because float32 numbers are 64 apart there.
"""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import Pattern, constant_facts, is_float, operands, where

BOOL = ir.DataType.BOOL

# Ops that leave each element of their first operand as it is.
_RESHAPING = frozenset({"Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def rewrite_masks(pattern: Pattern) -> None:
    """Replaces mask constants that FP16 cannot hold, where that changes no result."""
    for node in pattern.nodes("Where", "Add"):
        if not _only_feeds_softmax(node):
            continue
        if node.op_type == "Where" and _clamp_choice(pattern, node):
            pattern.done.append(
                f"{where(node)}: its mask constant became {-pattern.numbers.max:.6g}"
            )
        elif node.op_type == "Add":
            _choose_instead_of_adding(pattern, node)


def _only_feeds_softmax(node: ir.Node) -> bool:
    output = node.outputs[0]
    readers = output.consumers()
    return (
        bool(readers)
        and not output.is_graph_output()
        and all(reader.op_type == "Softmax" and reader.domain == "" for reader in readers)
    )


def _mask_number(pattern: Pattern, value: ir.Value | None) -> float | None:
    """The one number of a float32 constant, if it is past the range of 16 bits."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    if not is_float(value) or not constant_facts(value, pattern.numbers).overflows:
        return None
    numbers = value.const_value.numpy()
    first = float(numbers.flat[0])  # what overflows is not empty
    return first if np.isfinite(first) and bool(np.all(numbers == first)) else None


def _clamp_choice(pattern: Pattern, node: ir.Node) -> bool:
    done = False
    for index in (1, 2):
        value, other = node.inputs[index], node.inputs[3 - index]
        number = _mask_number(pattern, value)
        if number is None or number > 0 or _mask_number(pattern, other) is not None:
            continue
        assert value is not None
        assert value.const_value is not None
        node.replace_input_with(index, _lowest(pattern, value, value.const_value.numpy().shape))
        done = True
    return done


def _choose_instead_of_adding(pattern: Pattern, node: ir.Node) -> None:
    for score, added in operands(node):
        product = pattern.made_by(added, "Mul")
        if product is None:
            continue
        for flag, constant in operands(product):
            number = _mask_number(pattern, constant)
            assert number is None or constant.const_value is not None
            if number is None or number > 0 or constant.const_value.size != 1:
                continue
            if _is_flag(flag):
                _choose(pattern, node, flag, score, _lowest(pattern, constant, ()))
                return


def _is_flag(value: ir.Value | None) -> bool:
    """Whether a float value can only be 0 or 1: a cast Boolean, 1 minus one, in any shape."""
    node = value.producer() if value is not None else None
    if node is None or node.domain != "":
        return False
    if node.op_type == "Cast":
        source = node.inputs[0]
        return source is not None and source.dtype == BOOL
    if node.op_type in _RESHAPING:
        return _is_flag(node.inputs[0])
    if node.op_type != "Sub":
        return False
    one = node.inputs[0]
    return (
        one is not None
        and one.const_value is not None
        and not one.is_graph_input()
        and bool(np.all(one.const_value.numpy() == 1))
        and _is_flag(node.inputs[1])
    )


def _lowest(pattern: Pattern, constant: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """The most negative number of 16 bits in the place of a constant."""
    array = np.full(shape, -pattern.numbers.max, np.float32)
    return pattern.constant(array, f"{constant.name}_lowest")


def _condition(flag: ir.Value) -> tuple[ir.Value, bool] | None:
    """The Boolean that a flag was cast from, and whether the flag is its opposite."""
    node = flag.producer()
    assert node is not None  # a flag is made by some node
    if node.op_type == "Cast":
        source = node.inputs[0]
        return (source, False) if source is not None else None
    if node.op_type != "Sub" or node.inputs[1] is None:
        return None
    found = _condition(node.inputs[1])
    return (found[0], not found[1]) if found else None


def _choose(
    pattern: Pattern, node: ir.Node, flag: ir.Value, score: ir.Value, lowest: ir.Value
) -> None:
    """Puts Where(masked, lowest, score) in the place of an addition, or its mirror image."""
    condition, kept = _condition(flag) or (_as_bool(pattern, node, flag), False)
    choices = [score, lowest] if kept else [lowest, score]
    output = node.outputs[0]
    result = pattern.add(node, "Where", [condition, *choices], "chosen", output.shape)
    pattern.replace(output, result, f"adding a mask became choosing {-pattern.numbers.max:.6g}")


def _as_bool(pattern: Pattern, node: ir.Node, flag: ir.Value) -> ir.Value:
    result = pattern.add(node, "Cast", [flag], "masked", to=BOOL.value)
    result.type = ir.TensorType(BOOL)
    return result
