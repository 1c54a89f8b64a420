"""Inputs to call a model with: some rows of a batch, or numbers made up for its shapes."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import keras
import numpy as np
from keras import layers, ops, tree

from tfmp.precision.layer_tree import LayerNode
from tfmp.shared.backend import Tensor, TensorTree

ROWS = 8

# For an axis of unknown length; it passes through most strides and poolings.
_LENGTH = 32

# How many inputs may differ in their dtypes: one attempt for every way to choose them.
_MIXED_INPUTS = 3

# Positional arguments, and those by name.
Arguments = tuple[list[TensorTree], dict[str, TensorTree]]


def possible_arguments(entry: LayerNode, data: TensorTree) -> Iterator[Arguments]:
    """Arguments that a model may be called with, the likeliest first.

    Args:
        entry: what is called in a training step.
        data: inputs as the model takes them; with None they are made for the shapes that the model
            was built with.
    """
    if data is not None:
        for rows in _rows_of(data):  # a `train_step` may take others
            yield [rows], {}
            if isinstance(rows, list | tuple):
                yield list(rows), {}  # `call(self, a, b)`
    try:
        inputs = entry.layer.input
    except (AttributeError, ValueError):
        yield from _for_build_shapes(entry)
        return
    dtypes = [one.dtype for one in tree.flatten(inputs)]
    yield [_made(entry, inputs, dtypes, None)], {}


def _rows_of(data: TensorTree) -> Iterator[TensorTree]:
    """The first rows of a batch; then all of them, as nodes and edges of a graph need them."""

    def cut(value: Any) -> Tensor:
        return value if value is None or not np.ndim(value) else value[:ROWS]

    sizes = {len(value) for value in tree.flatten(data) if value is not None and np.ndim(value)}
    if len(sizes) < 2:
        yield tree.map_structure(lambda v: None if v is None else _tensor(cut(v)), data)
    yield tree.map_structure(lambda v: None if v is None else _tensor(v), data)


def _tensor(value: Any) -> Tensor:
    """A tensor as `fit` makes it: floats in float32."""
    tensor = value if ops.is_tensor(value) else ops.convert_to_tensor(value)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return ops.cast(tensor, "float32") if dtype == "float64" else tensor


def _for_build_shapes(entry: LayerNode) -> Iterator[Arguments]:
    """For a subclassed model, which remembers the shapes it was built with, but not the dtypes."""
    shapes = entry.layer._build_shapes_dict
    if not shapes:
        return
    names = [name.removesuffix("_shape") for name in shapes]
    specs = [
        tree.map_shape_structure(
            lambda shape: None if shape is None else keras.KerasTensor(shape, "float32"), shape
        )
        for shape in shapes.values()
    ]
    count = len([spec for spec in tree.flatten(specs) if spec is not None])
    for dtypes in _possible_dtypes(count):
        for rows in (ROWS, None):
            first, *others = _made(entry, specs, dtypes, rows)
            yield [first], dict(zip(names[1:], others, strict=True))


def _possible_dtypes(count: int) -> Iterator[tuple[str, ...]]:
    """Dtypes that a model's inputs may have: float32 first, whole numbers where those fail."""
    kinds = ("float32", "int32")
    if count <= _MIXED_INPUTS:
        return product(kinds, repeat=count)
    return ((kind,) * count for kind in kinds)


def _made(
    entry: LayerNode, specs: TensorTree, dtypes: Iterable[str], rows: int | None
) -> TensorTree:
    """Seeded inputs: normal numbers, and whole ones that all tables of the model have.

    Args:
        entry: the model.
        specs: symbolic tensors, or None where nothing is passed.
        dtypes: those of the inputs.
        rows: size of the first axis; None for the one in the specs.
    """
    draw, left = np.random.default_rng(0), iter(dtypes)
    tables = [n.layer.input_dim for n in entry.within() if isinstance(n.layer, layers.Embedding)]
    most = min(tables, default=2)

    def make(spec: keras.KerasTensor | None) -> Tensor:
        if spec is None:
            return None
        sizes = [_LENGTH if size is None else size for size in spec.shape]
        if sizes and (spec.shape[0] is None or rows is not None):
            sizes[0] = rows or ROWS
        dtype = next(left)
        if keras.backend.is_float_dtype(dtype):
            return ops.cast(draw.standard_normal(sizes), "float32")
        if keras.backend.is_int_dtype(dtype) or dtype == "bool":
            return ops.cast(draw.integers(0, 2 if dtype == "bool" else most, sizes), dtype)
        return ops.convert_to_tensor(np.full(sizes, "a"), dtype=dtype)

    return tree.map_structure(make, specs)
