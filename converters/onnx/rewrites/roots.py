"""Roots of sums of squares, as graphs write them."""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import (
    Pattern,
    Reduction,
    is_number,
    number_of,
    private,
    reduction_of,
    with_constant,
)


@dataclass(frozen=True)
class Root:
    """sqrt(factor * sum(value ** 2) + epsilon), or with max in the place of +.

    Attributes:
        node: the Sqrt.
        inner: the other nodes, down to the one that squares.
        squares: the reduction of the squares.
        value: the value that is squared.
        factor: the factor of the sum.
        epsilon: the number that is added.
        floor: the number that the sum is at least.
    """

    node: ir.Node
    inner: tuple[ir.Node, ...]
    squares: Reduction
    value: ir.Value
    factor: float
    epsilon: float
    floor: float

    def is_mean(self) -> bool:
        """Whether it is the root of a mean and an epsilon, as normalizations take it."""
        count = self.squares.count
        exact = count is not None and math.isclose(self.factor * count, 1, rel_tol=1e-6)
        return exact and self.squares.keepdims and not self.floor


def root_of(pattern: Pattern, node: ir.Node) -> Root | None:
    """The sum of squares that a Sqrt, or a Pow, takes the root of; None if others read it."""
    inner: list[ir.Node] = []
    factor, epsilon, floor = 1.0, 0.0, 0.0
    value = node.inputs[0]
    bound = pattern.made_by(value, "Add", "Max", "Clip")
    if bound is not None:
        found = lower_bound(bound)
        if found is None or not 0 < found[1] < math.inf:
            return None
        inner.append(bound)
        value, number = found
        epsilon, floor = (number, 0.0) if bound.op_type == "Add" else (0.0, number)
    while (scale := pattern.made_by(value, "Mul", "Div")) is not None:
        found = with_constant(scale)
        if found is None or not 0 < found[1] < math.inf:
            return None
        inner.append(scale)
        value = found[0]
        factor *= found[1] if scale.op_type == "Mul" else 1 / found[1]
    total = pattern.made_by(value, "ReduceMean", "ReduceSum")
    reduced = reduction_of(total) if total is not None else None
    if total is None or reduced is None:
        return None
    square = square_of(pattern, reduced.value)
    if square is None:
        return None
    if total.op_type == "ReduceMean":
        if not reduced.count:
            return None
        factor /= reduced.count
    base, squaring = square
    inner += [total, squaring]
    if not private(inner, node):
        return None
    return Root(node, tuple(inner), reduced, base, factor, epsilon, floor)


def lower_bound(node: ir.Node) -> tuple[ir.Value, float] | None:
    """The value under Add, Max or Clip, and the number that is put below it."""
    if node.op_type != "Clip":
        return with_constant(node)
    value, *bounds = node.inputs
    number = number_of(bounds[0]) if bounds else None
    unbounded = len(bounds) < 2 or bounds[1] is None or is_number(bounds[1], float(_FLT_MAX))
    return (value, number) if value is not None and number is not None and unbounded else None


_FLT_MAX = np.finfo(np.float32).max


def square_of(pattern: Pattern, value: ir.Value | None) -> tuple[ir.Value, ir.Node] | None:
    """The value that is squared, and the node that squares it."""
    node = pattern.made_by(value, "Mul", "Pow")
    if node is None or node.inputs[0] is None:
        return None
    same = node.op_type == "Mul" and node.inputs[0] is node.inputs[1]
    squared = same or (node.op_type == "Pow" and is_number(node.inputs[1], 2, 0))
    return (node.inputs[0], node) if squared else None
