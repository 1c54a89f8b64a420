"""ONNX's experimental operators of 2017, which ONNX Runtime still runs, as operators of today."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

# Given the tape to build on, the operator with its attributes, and its input.
_Rule = Callable[[Tape, ir.Node, ir.Value], ir.Value]


def _affine(tape: Tape, node: ir.Node, x: ir.Value) -> ir.Value:
    scaled = _with_attribute(tape, node, x, "alpha")
    return _with_constant(tape, "Add", scaled, node.attributes.get_float("beta", 0.0))


def _crop(tape: Tape, node: ir.Node, x: ir.Value) -> ir.Value:
    left, top, right, bottom = node.attributes.get_ints("border", [0, 0, 0, 0])
    size = node.attributes.get_ints("scale")
    ends = [-bottom, -right] if size is None else [top + size[0], left + size[1]]
    bounds = {"starts": [top, left], "ends": [end or np.iinfo(np.int32).max for end in ends]}
    return tape.op("Slice", [x], {"axes": [2, 3], **bounds})


def _image_scaler(tape: Tape, node: ir.Node, x: ir.Value) -> ir.Value:
    bias = np.reshape(node.attributes.get_floats("bias", [0.0]), (-1, 1, 1))
    return _with_constant(tape, "Add", _with_attribute(tape, node, x, "scale"), bias)


def _scaled(kind: str) -> _Rule:
    def rule(tape: Tape, node: ir.Node, x: ir.Value) -> ir.Value:
        inner = tape.op(kind, [_with_attribute(tape, node, x, "beta")])
        return _with_attribute(tape, node, inner, "alpha")

    return rule


def _with_attribute(tape: Tape, node: ir.Node, x: ir.Value, name: str) -> ir.Value:
    return _with_constant(tape, "Mul", x, node.attributes.get_float(name, 1.0))


def _with_constant(tape: Tape, kind: str, x: ir.Value, value: float | np.ndarray) -> ir.Value:
    constant = tape.op("Constant", [], {"value": ir.tensor(np.asarray(value, np.float32))})
    return tape.op(kind, [x, constant])


_RULES: dict[str, _Rule] = {
    "Affine": _affine,
    "Crop": _crop,
    "ImageScaler": _image_scaler,
    "ParametricSoftplus": _scaled("Softplus"),
    "ScaledTanh": _scaled("Tanh"),
}
# From here on Slice takes its bounds as inputs.
_NEW_SLICE = 10


def with_plain_operators(model: ir.Model) -> None:
    """Changes a model: its experimental operators are expressed by others."""
    for node in list(model.graph.all_nodes()):
        rule = _RULES.get(node.op_type) if not node.domain else None
        newer = node.op_type == "Crop" and model.opset_imports.get("", 1) >= _NEW_SLICE
        if rule is None or newer or node.graph is None or node.inputs[0] is None:
            continue
        tape = Tape()
        result = rule(tape, node, node.inputs[0])
        for index, made in enumerate(tape.nodes):
            made.name = f"{node.name or node.op_type}/{index}"
        ir.convenience.replace_nodes_and_values(
            node.graph, node, [node], tape.nodes, [node.outputs[0]], [result]
        )
