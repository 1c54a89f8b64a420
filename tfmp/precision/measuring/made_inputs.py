"""Inputs to call a model with: some rows of a batch, or numbers made up for its shapes."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import keras
import numpy as np
from keras import layers, ops, tree

from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.measuring.calls import Arguments
from tfmp.shared.backend import Tensor, TensorTree

ROWS = 8

# For an axis of unknown length; it passes through most strides and poolings.
_LENGTH = 32

# How many inputs may differ in their dtypes: one attempt for every way to choose them.
_MIXED_INPUTS = 3


def possible_arguments(entry: LayerNode, data: TensorTree) -> Iterator[Arguments]:
    """Arguments that a model may be called with, the likeliest first.

    Without data they are made for the shapes that the model was built with.
    """
    if data is not None:
        for rows in _rows_of(data):  # a `train_step` may take others
            yield [rows], {}
            if isinstance(rows, list | tuple):
                yield list(rows), {}  # `call(self, a, b)`
            elif isinstance(rows, dict):
                yield [], rows
    try:
        inputs = entry.layer.input
    except (AttributeError, ValueError):
        yield from _for_build_shapes(entry)
        return
    yield [_made(entry, inputs, None)], {}


def _rows_of(data: TensorTree) -> Iterator[TensorTree]:
    """The first rows of a batch; then all of them, as nodes and edges of a graph need them."""
    sizes = {len(value) for value in tree.flatten(data) if value is not None and np.ndim(value)}
    for rows in (ROWS, None) if len(sizes) < 2 else (None,):
        yield tree.map_structure(lambda value, rows=rows: _tensor(value, rows), data)


def _tensor(value: Any, rows: int | None) -> Tensor:
    """A tensor as `fit` makes it: floats in float32."""
    if value is None:
        return None
    value = value[:rows] if np.ndim(value) else value
    tensor = value if ops.is_tensor(value) else ops.convert_to_tensor(value)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return ops.cast(tensor, "float32") if dtype == "float64" else tensor


def _for_build_shapes(entry: LayerNode) -> Iterator[Arguments]:
    """For a subclassed model, which remembers the shapes it was built with, but not the dtypes.

    Floats are the likeliest; whole numbers come where those fail.
    """
    shapes = entry.layer._build_shapes_dict or {}
    names = [name.removesuffix("_shape") for name in shapes]
    known: list[tuple[int, ...] | None] = []
    tree.map_shape_structure(known.append, [*shapes.values()])
    count, kinds = sum(shape is not None for shape in known), ("float32", "int32")
    mixed = product(kinds, repeat=count) if count <= _MIXED_INPUTS else [[k] * count for k in kinds]
    for dtypes in mixed if shapes else ():
        left = iter(dtypes)
        specs = tree.map_shape_structure(
            lambda s, left=left: None if s is None else keras.KerasTensor(s, next(left)),
            [*shapes.values()],
        )
        for rows in (ROWS, None):
            first, *others = _made(entry, specs, rows)
            yield [first], dict(zip(names[1:], others, strict=True))


def _made(entry: LayerNode, specs: TensorTree, rows: int | None) -> TensorTree:
    """Seeded inputs: normal numbers, and whole ones that all tables of the model have.

    They are as many rows as asked for, or as in the symbolic tensors.
    """
    draw = np.random.default_rng(0)
    tables = [n.layer.input_dim for n in entry.within() if isinstance(n.layer, layers.Embedding)]
    most = min(tables, default=2)

    def make(spec: keras.KerasTensor | None) -> Tensor:
        if spec is None:
            return None
        sizes = [_LENGTH if size is None else size for size in spec.shape]
        if sizes and (spec.shape[0] is None or rows is not None):
            sizes[0] = rows or ROWS
        if keras.backend.is_float_dtype(spec.dtype):
            return ops.cast(draw.standard_normal(sizes), "float32")
        if keras.backend.is_int_dtype(spec.dtype) or spec.dtype == "bool":
            most_here = 2 if spec.dtype == "bool" else most
            return ops.cast(draw.integers(0, most_here, sizes), spec.dtype)
        return ops.convert_to_tensor(np.full(sizes, "a"), dtype=spec.dtype)

    return tree.map_structure(make, specs)
