"""Finds operations of a traced model that add, average or count along a size that may change."""

from collections.abc import Iterator
from typing import Any

from tfmp.converters.intake import Source

_WHAT = {
    **dict.fromkeys(("Sum", "EuclideanNorm", "Softmax", "LogSoftmax", "Cumsum"), "a sum"),
    **dict.fromkeys(("BatchMatMulV2", "Einsum"), "a sum"),
    "Mean": "a mean",
    "Range": "positions",
}


def sums_over_open_sizes(source: Source) -> Iterator[tuple[str, str, str]]:
    """Operations whose result adds up more numbers where an input is larger.

    Yields:
        Operation, its name, and "a sum", "a mean" or "positions".
    """
    import tensorflow as tf

    for op in source.graph.graph.get_operations():
        what = _WHAT.get(op.type)
        if what == "positions":
            grows = any(tf.get_static_value(value) is None for value in op.inputs)
        else:
            grows = what is not None and any(
                axis and shape[axis] is None for shape, axis in _added(op, tf.get_static_value)
            )
        if what is not None and grows:
            yield op.type, op.name, what


def _added(op: Any, static: Any) -> Iterator[tuple[list[int | None], int]]:
    """The shapes of what an operation adds up, and along which axis; the samples have axis 0."""
    first = op.inputs[0].shape
    if first.rank is None:
        return
    axes = [-1]
    if op.type in ("Sum", "Mean", "EuclideanNorm", "Cumsum"):
        given = static(op.inputs[1])
        axes = [] if given is None else given.reshape(-1).tolist()
    elif op.type == "BatchMatMulV2" and op.get_attr("adj_x"):
        axes = [-2]
    elif op.type == "Einsum":
        operands, _, result = op.get_attr("equation").decode().partition("->")
        for value, letters in zip(op.inputs, operands.split(","), strict=True):
            if value.shape.rank == len(letters):
                places = enumerate(letters)
                yield from ((value.shape.as_list(), at) for at, one in places if one not in result)
        return
    yield from ((first.as_list(), axis % first.rank) for axis in axes)
