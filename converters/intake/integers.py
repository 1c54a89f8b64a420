"""Inputs that hold integers although the model does not declare it."""

from collections.abc import Iterator
from dataclasses import replace

from tfmp.converters.intake.source import Source
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.shared.backend import Tensor

_INTEGERS = ("int32", "int64")
_COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Shape")


def with_integers(source: Source) -> Source:
    """The same model with integers for those inputs that are ids.

    A subclassed Keras model keeps the shapes of its inputs and not their dtypes. An input that it
    only compares, or casts to integers as an Embedding does, is an integer; FP16 would round it if
    it were a float.
    """
    found = dict(_cast_at_once(source))
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


def id_inputs(source: Source) -> set[str]:
    """Names of the float inputs that the model casts to integers at once: they hold ids."""
    return {name for name, _ in _cast_at_once(source)}


def _cast_at_once(source: Source) -> Iterator[tuple[str, str]]:
    for spec, tensor in zip(source.inputs, source.marked.inputs, strict=False):
        dtype = _integer_dtype(spec, tensor)
        if dtype is not None:
            yield spec.name, dtype


def _integer_dtype(spec: TensorSpec, tensor: Tensor) -> str | None:
    """The integer type that every reader of the tensor casts it to; None if there are others."""
    if spec.dtype != "float32":
        return None
    casts = set()
    waiting = list(tensor.consumers())
    while waiting:
        reader = waiting.pop()
        if reader.type == "Identity":
            waiting.extend(reader.outputs[0].consumers())
        elif reader.type == "Cast":
            casts.add(reader.outputs[0].dtype.name)
        elif reader.type not in _COMPARISONS:
            return None
    return casts.pop() if len(casts) == 1 and casts <= set(_INTEGERS) else None
