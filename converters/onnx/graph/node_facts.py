"""Attributes of nodes and sizes of their operands, as far as they are known before a run."""

import math
import re
from collections.abc import Callable, Sequence

import onnx_ir as ir

from tfmp.converters.shared.errors import InputError


class NotStaticError(Exception):
    """A fact that has to be known before a run is unknown."""


def operand(node: ir.Node, index: int) -> ir.Value:
    """An input that the operator requires."""
    value = node.inputs[index]
    assert value is not None
    return value


def optional(node: ir.Node, index: int) -> ir.Value | None:
    """An input that may be left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def rank_of(value: ir.Value) -> int:
    """The number of axes; raises `NotStaticError`."""
    if value.shape is None:
        raise NotStaticError
    return len(value.shape)


def size_of(value: ir.Value, axis: int) -> int | None:
    """The size of an axis, if it is known before the run."""
    size = value.shape[axis] if value.shape is not None else None
    return size if isinstance(size, int) else None


def sizes_from(value: ir.Value, start: int = 0) -> list[int]:
    """The sizes of the axes from `start` on; raises `NotStaticError` unless all are known."""
    sizes = [size_of(value, axis) for axis in range(start, rank_of(value))]
    if None in sizes:
        raise NotStaticError
    return [size for size in sizes if size is not None]


def node_matcher(patterns: Sequence[str]) -> Callable[[ir.Node], str | None]:
    """Gives the first pattern of `keep_fp32` that a node matches, or None.

    Raises:
        InputError: a pattern is not a regular expression.
    """
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise InputError(
                f"keep_fp32: {pattern!r} is not a regular expression ({error})."
            ) from error

    def matches(pattern: re.Pattern[str], node: ir.Node) -> bool:
        layer = node.metadata_props.get("tfmp.layer", "")
        return bool(
            pattern.search(node.name or "")
            or pattern.search(layer)
            or pattern.fullmatch(node.op_type)
        )

    def first(node: ir.Node) -> str | None:
        hit = next((pattern for pattern in compiled if matches(pattern, node)), None)
        return hit.pattern if hit else None

    return first


# Ops that multiply by weights and add up.
PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def depth_of(node: ir.Node) -> float:
    """Multiplications for one element of a node's result."""
    right = node.inputs[1] if node.op_type in PRODUCTS else None
    shape = right.shape if right is not None else None
    if shape is None or not len(shape):
        return 1.0
    if node.op_type in ("Conv", "ConvTranspose"):
        inner = [*shape[1:]] if node.op_type == "Conv" else [shape[0], *shape[2:]]
    elif node.op_type == "Gemm":
        inner = [shape[1 if node.attributes.get_int("transB", 0) else 0]]
    else:
        inner = [shape[-2] if len(shape) > 1 else shape[0]]
    return math.prod(float(size) for size in inner if isinstance(size, int))
