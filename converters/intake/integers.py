"""Inputs that are integers although nothing says so."""

from collections.abc import Iterator
from dataclasses import replace

from tfmp.converters.intake.source import Source
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.shared.backend import Tensor

_INTEGERS = ("int32", "int64")
_COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Shape")


def with_integers(source: Source) -> Source:
    """The same model, its inputs that are ids taking integers.

    A subclassed Keras model keeps the shapes of its inputs and not their dtypes. What it only casts
    to integers, as an Embedding does, and compares is an integer; as a float, FP16 would round it.
    """
    found = dict(_cast_at_once(source))
    if not found:
        return source
    inputs = tuple(replace(spec, dtype=found.get(spec.name, spec.dtype)) for spec in source.inputs)
    listed = ", ".join(f"{name!r} ({dtype})" for name, dtype in found.items())
    note = f"integers although the model does not say so, since it casts them at once: {listed}"
    origin = replace(source.origin, notes=(*source.origin.notes, note))
    try:
        return Source.traced(origin, inputs, source.call, source.variables, source.marked_layers)
    except ConversionError:
        return source  # its own code insists on floats


def _cast_at_once(source: Source) -> Iterator[tuple[str, str]]:
    for spec, tensor in zip(source.inputs, source.marked.inputs, strict=False):
        dtype = _integer_dtype(spec, tensor)
        if dtype is not None:
            yield spec.name, dtype


def _integer_dtype(spec: TensorSpec, tensor: Tensor) -> str | None:
    """What all that reads the tensor makes of it, if that is one type of integers."""
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
