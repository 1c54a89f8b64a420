"""Float32 graphs rewritten so that FP16 can hold what they compute; the results stay the same.

Attention masks are numbers like -1e9, which FP16 turns into -inf: a row that is masked throughout
then becomes NaN. Selecting FP16's most negative number instead needs no FP32 at all:

- `Where(keep, score, c)` before a Softmax, with c past the range: c becomes -65504.
- `score + masked * c` before a Softmax, where `masked` can only be 0 or 1: becomes
  `Where(masked, -65504, score)`.

Both are exact in effect: no FP16 score is less than -65504, and beside any score above -65400 a
masked one has probability exp(-104) or less, which is 0 in float32. A row without any other score
is uniform, as softmax(score - 1e9) is where float32 numbers are 64 apart.
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from tfmp.converters.onnx.constants import constant_facts
from tfmp.converters.onnx.schema import is_float
from tfmp.numerics import FLOAT16

BOOL = ir.DataType.BOOL

# Ops that leave each element of their first operand as it is.
_RESHAPING = frozenset({"Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def rewrite_masks(model: ir.Model) -> list[str]:
    """Replaces mask constants that FP16 cannot hold, where that changes no result.

    Args:
        model: prepared (`fp16.prepare`), float32; changed in place.

    Returns:
        What was done, one sentence a mask.
    """
    done = []
    for node in list(model.graph.all_nodes()):
        if node.domain != "" or not _only_feeds_softmax(node):
            continue
        if node.op_type == "Where" and _clamp_choice(node):
            done.append(f"{_where(node)}: its mask constant became -65504")
        elif node.op_type == "Add" and _choose_instead_of_adding(node):
            done.append(f"{_where(node)}: adding a mask became choosing -65504")
    if done:
        RemoveUnusedNodesPass()(model)  # the products that were added
    return done


def _where(node: ir.Node) -> str:
    return f"{node.op_type} in {node.metadata_props.get('tfmp.layer') or node.name}"


def _only_feeds_softmax(node: ir.Node) -> bool:
    output = node.outputs[0]
    readers = output.consumers()
    return (
        bool(readers)
        and not output.is_graph_output()
        and all(reader.op_type == "Softmax" and reader.domain == "" for reader in readers)
    )


def _mask_number(value: ir.Value | None) -> float | None:
    """The one number of a float32 constant, if it is negative and past FP16's range."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    if not is_float(value) or not constant_facts(value).overflows:
        return None
    numbers = np.unique(value.const_value.numpy())
    return float(numbers[0]) if numbers.size == 1 and np.isfinite(numbers[0]) else None


def _clamp_choice(node: ir.Node) -> bool:
    done = False
    for index in (1, 2):
        value, other = node.inputs[index], node.inputs[3 - index]
        number = _mask_number(value)
        if number is None or number > 0 or _mask_number(other) is not None:
            continue
        assert value is not None
        assert value.const_value is not None
        node.replace_input_with(index, _lowest(value, value.const_value.numpy().shape))
        done = True
    return done


def _choose_instead_of_adding(node: ir.Node) -> bool:
    for score, added in (node.inputs, node.inputs[::-1]):
        product = added.producer() if added is not None else None
        if product is None or product.op_type != "Mul" or product.domain != "":
            continue
        for flag, constant in (product.inputs, product.inputs[::-1]):
            number = _mask_number(constant)
            scalar = (
                constant is not None
                and constant.const_value is not None
                and (constant.const_value.size == 1)
            )
            if number is not None and number < 0 and scalar and _is_flag(flag):
                assert flag is not None
                assert constant is not None
                _choose(node, flag, score, _lowest(constant, ()))
                return True
    return False


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


def _lowest(constant: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """FP16's most negative number as a constant beside `constant`."""
    graph = constant.graph
    assert graph is not None
    name = f"{constant.name}_lowest_fp16"
    while name in graph.initializers:
        name += "_"
    array = np.full(shape, -FLOAT16.max, np.float32)
    value = ir.Value(
        name=name,
        type=ir.TensorType(ir.DataType.FLOAT),
        shape=ir.Shape(shape),
        const_value=ir.tensor(array, name=name),
    )
    graph.initializers.add(value)
    return value


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


def _choose(add: ir.Node, flag: ir.Value, score: ir.Value | None, lowest: ir.Value) -> None:
    """Puts Where(masked, lowest, score) in the place of `add`, or its mirror image."""
    output = add.outputs[0]
    condition, kept = _condition(flag) or (_as_bool(add, flag), False)
    choices = [score, lowest] if kept else [lowest, score]
    choice = ir.Node("", "Where", [condition, *choices])
    choice.outputs[0].type, choice.outputs[0].shape = output.type, output.shape
    _insert(add, choice, "chosen")
    output.replace_all_uses_with(choice.outputs[0])
    add.graph.remove(add, safe=True)


def _as_bool(add: ir.Node, flag: ir.Value) -> ir.Value:
    cast = ir.Node("", "Cast", [flag], [ir.AttrInt64("to", BOOL.value)])
    cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(BOOL), flag.shape
    _insert(add, cast, "masked")
    return cast.outputs[0]


def _insert(add: ir.Node, node: ir.Node, kind: str) -> None:
    """Puts a new node before `add`, with a name and layer that tell where it is from."""
    name = add.outputs[0].name
    node.name, node.outputs[0].name = f"{add.name or name}_{kind}", f"{name}_{kind}"
    node.metadata_props.update(add.metadata_props)
    add.graph.insert_before(add, node)
