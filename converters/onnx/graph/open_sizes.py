"""Finds the nodes of an ONNX graph that add, average or count along a size that may change."""

from collections.abc import Iterator

import onnx_ir as ir

from tfmp.converters.onnx.graph.matching import array_of, reduction_of
from tfmp.converters.onnx.graph.traversal import nodes_of

_MEANS = ("ReduceMean", "GlobalAveragePool")
_NORMS = (
    *("ReduceL1", "ReduceL2", "GlobalLpPool", "LpNormalization", "InstanceNormalization"),
    *("GroupNormalization", "LayerNormalization", "RMSNormalization"),
)
_REDUCTIONS = frozenset(
    "ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp".split()
)
# From which axis on an op adds everything.
_FROM = {
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "InstanceNormalization"), 2),
    "GroupNormalization": 1,
}
# Ops that add along the axis of an attribute, by its default; the second group to the last axis.
_ALONG = {"Softmax": -1, "LogSoftmax": -1, "LpNormalization": -1}
_BEHIND = {"LayerNormalization": -1, "RMSNormalization": -1}


def sums_over_open_sizes(model: ir.Model) -> Iterator[tuple[str, str, str]]:
    """Nodes whose result adds up more numbers where an input is larger.

    Args:
        model: with constants as initializers and known types, see `fp16.prepare`.

    Yields:
        Op type, name, and "a sum", "a mean", "a norm" or "positions".
    """
    samples = {
        value.shape[0]
        for value in model.graph.inputs
        if value.shape is not None and len(value.shape) and _name_of(value, 0)
    }
    for node in nodes_of(model.graph):
        if node.op_type == "Range":
            if any(value is not None and value.const_value is None for value in node.inputs):
                yield node.op_type, node.name or "", "positions"
            continue
        if any(_is_open(value, axis, samples) for value, axis in _added(node)):
            op = node.op_type
            what = "a mean" if op in _MEANS else "a norm" if op in _NORMS else "a sum"
            yield op, node.name or "", what


def _added(node: ir.Node) -> Iterator[tuple[ir.Value, int]]:
    """The operands that a node adds up, and along which axis."""
    op, first = node.op_type, node.inputs[0] if node.inputs else None
    if first is None or first.shape is None:
        return
    rank = len(first.shape)
    if op in _REDUCTIONS and (reduction := reduction_of(node)) is not None:
        yield from ((first, axis) for axis in reduction.axes)
    elif op == "MatMul" and rank:
        yield first, rank - 1
    elif op in _ALONG:
        yield first, node.attributes.get_int("axis", _ALONG[op]) % rank
    elif op in _BEHIND or op in _FROM:
        start = _FROM[op] if op in _FROM else node.attributes.get_int("axis", _BEHIND[op]) % rank
        yield from ((first, axis) for axis in range(start, rank))
    elif op == "CumSum" and (axis := array_of(node.inputs[1])) is not None:
        yield first, int(axis) % rank
    elif op == "Einsum":
        operands, _, result = (
            node.attributes.get_string("equation", "").replace(" ", "").partition("->")
        )
        for value, letters in zip(node.inputs, operands.split(","), strict=False):
            if value is not None and value.shape is not None and "." not in letters:
                yield from ((value, at) for at, name in enumerate(letters) if name not in result)


def _is_open(value: ir.Value, axis: int, samples: set[ir.SymbolicDim]) -> bool:
    """Whether a size may change, other than the number of samples."""
    if value.shape is None or axis >= len(value.shape) or isinstance(value.shape[axis], int):
        return False
    return value.shape[axis] not in samples and (axis > 0 or _name_of(value, 0) is not None)


def _name_of(value: ir.Value, axis: int) -> str | None:
    """The name of a size that may change; None for a size that is fixed or has none."""
    size = value.shape[axis] if value.shape is not None else None
    return size.value if isinstance(size, ir.SymbolicDim) else None
