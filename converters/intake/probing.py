"""Inputs that a model accepts: which of them hold ids, the data's, and seeded ones without data."""

from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np

from tfmp.converters.intake.source import Source, trace_call
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import Batch, TensorSpec, synthetic_batch
from tfmp.shared.backend import Tensor

# Images of fewer pixels vanish in deep nets, and long sequences cost time.
_OPEN_SIZES = (8, 16, 32, 64, 128, 256)
# Sounds and other signals, whose windows are longer.
_SIGNAL_SIZES = (1024, 4096, 16384)


def probe(source: Source, samples: int, seed: int) -> Batch:
    """Rows of the data, or seeded inputs: ids where it takes ids, open sizes as it needs them.

    These are the data's first rows. Without data they are the smallest inputs for which no tensor
    of the model is empty; where no size helps, the smallest of all. The first axis of a function
    may be one of time, and grows as well.
    """
    if source.sampled is not None:
        return {spec.name: _rows(source.sampled, spec, samples) for spec in source.inputs}
    ids = _cast_at_once(source)
    sized = all(None not in spec.shape[1:] for spec in source.inputs)
    signals = all(spec.shape[1:].count(None) < 2 for spec in source.inputs)
    sizes = (*_OPEN_SIZES, *(_SIGNAL_SIZES if signals else ()), *_sizes_beside(source))
    batches = source.origin.format == "keras"
    rounds = [(samples, size) for size in (sizes[:1] if sized else sizes)]
    tried = []
    for first, size in (*rounds, *(() if batches else zip(sizes, sizes, strict=True))):
        batch = synthetic_batch(source.inputs, first, seed, open_size=size)
        for name in ids:
            batch[name] = (batch[name] > 0).astype(batch[name].dtype)
        tried.append(batch)
        if (sized and batches) or _accepts(source, batch):
            return batch
    return tried[0]


def _sizes_beside(source: Source) -> list[int]:
    """Sizes of what the inputs meet first: of means that they are normalized by, or of weights."""
    readers = [
        one for tensor in source.marked.inputs for one in _readers(tensor, ("Cast", "Identity"))
    ]
    operands = [value for one in readers for value in one.inputs if value.shape.rank]
    return sorted({size for value in operands for size in value.shape.as_list() if (size or 1) > 1})


def _readers(tensor: Tensor, through: Container[str] = ("Identity",)) -> list[Any]:
    """The operations that read a tensor, or what these operations make of it."""
    found = []
    for reader in tensor.consumers():
        found += _readers(reader.outputs[0], through) if reader.type in through else [reader]
    return found


def _rows(batch: Batch, spec: TensorSpec, samples: int) -> np.ndarray:
    array = batch[spec.name]
    if not array.ndim:
        return array
    return np.take(array, range(spec.shape[0] or samples), axis=0, mode="wrap")


def _accepts(source: Source, batch: Batch) -> bool:
    """Whether these sizes fit the model, and no picture in it shrinks to nothing."""
    fixed = [replace(spec, shape=batch[spec.name].shape) for spec in source.inputs]
    try:
        traced, _ = trace_call(source.call, fixed)
        empty = any(
            value.dtype.is_floating and (value.shape.rank or 0) > 2 and 0 in value.shape.as_list()
            for operation in traced.graph.get_operations()
            for value in operation.outputs
        )
        # Only then, for kernels of TensorFlow divide by the sizes of a picture.
        return not empty and all(map(np.size, source.forward(batch).values()))
    except Exception:  # TensorFlow raises every kind of exception for sizes that do not fit
        return False


_INTEGERS = ("int32", "int64")
_COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Shape")


def with_integers(source: Source) -> Source:
    """The same model with integers for those inputs that are ids.

    A subclassed Keras model keeps the shapes of its inputs and not their dtypes. An input that it
    only compares, or casts to integers as an Embedding does, is an integer; FP16 would round it if
    it were a float.
    """
    found = _cast_at_once(source)
    if not found:
        return source
    inputs = tuple(replace(spec, dtype=found.get(spec.name, spec.dtype)) for spec in source.inputs)
    listed = ", ".join(f"{name!r} ({dtype})" for name, dtype in found.items())
    note = f"inputs taken as integers, because the model casts them at once: {listed}"
    origin = replace(source.origin, notes=(*source.origin.notes, note))
    try:
        return Source.traced(origin, inputs, source.call, source.variables, source.marked_layers)
    except ConversionError:
        return source  # its own code insists on floats


def _cast_at_once(source: Source) -> dict[str, str]:
    """The float inputs that the model casts to integers at once, as they hold ids; the dtypes."""
    pairs = zip(source.inputs, source.marked.inputs, strict=False)
    found = {spec.name: _integer_dtype(spec, tensor) for spec, tensor in pairs}
    return {name: dtype for name, dtype in found.items() if dtype is not None}


def _integer_dtype(spec: TensorSpec, tensor: Tensor) -> str | None:
    """The integer type that every reader of the tensor casts it to; None if there are others."""
    if spec.dtype != "float32":
        return None
    casts = set()
    for reader in _readers(tensor):
        if reader.type == "Cast":
            casts.add(reader.outputs[0].dtype.name)
        elif reader.type not in _COMPARISONS:
            return None
    return casts.pop() if len(casts) == 1 and casts <= set(_INTEGERS) else None
