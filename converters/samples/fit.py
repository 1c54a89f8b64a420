"""Fits arrays to a model's inputs, or says why they do not fit."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from tfmp.converters.drift import is_floating
from tfmp.converters.samples.sources import RawArrays
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec, describe


def arrays_by_name(
    arrays: RawArrays, inputs: Sequence[TensorSpec], source: str
) -> dict[str, ArrayLike]:
    """Arrays by input name, from any form of samples.

    Raises:
        InputError: the arrays have other names than the inputs, or another number.
    """
    if isinstance(arrays, Mapping):
        if len(arrays) == len(inputs) == 1:  # a single array may have any name
            return {inputs[0].name: next(iter(arrays.values()))}
        names = {spec.name for spec in inputs}
        if set(arrays) == names:
            return dict(arrays)
        if set(arrays) == {spec.alias for spec in inputs}:
            return {spec.name: arrays[spec.alias] for spec in inputs}
        missing = ", ".join(repr(name) for name in sorted(names - set(arrays)))
        unknown = ", ".join(repr(name) for name in sorted(set(arrays) - names))
        received = ", ".join(map(repr, arrays)) or "none"
        parts = [f"Expected {describe(inputs)}; received {received}"]
        parts += [f"missing {missing}"] * bool(missing) + [f"unknown {unknown}"] * bool(unknown)
        raise InputError(
            f"data {source}: its arrays do not have the names of the model's inputs. "
            f"{'; '.join(parts)}",
            "Name the arrays after the inputs, and labels 'labels'",
        )
    given = arrays if isinstance(arrays, list | tuple) else [arrays]
    if len(given) == len(inputs):
        return {spec.name: array for spec, array in zip(inputs, given, strict=True)}
    raise InputError(
        f"data {source}: expected an array for each of {len(inputs)} inputs, received "
        f"{len(given)}. The inputs: {describe(inputs)}",
        "Pass a dict of arrays by name in Python, or an .npz file",
    )


def check(array: np.ndarray, spec: TensorSpec, source: str) -> None:
    """Accepts an array with the shape and the kind of values of an input; looks at no value.

    Raises:
        InputError: the shape or the kind of values is another one.
    """
    if not spec.accepts(array):
        raise InputError(
            f"data {source}: input {spec.name!r} expects {spec}, received {array.dtype} of shape "
            f"{array.shape}",
            _shape_advice(array, spec),
        )
    fits = _FITTING.get(kind_of(spec.dtype), "USO")
    # Where NumPy has no kind for a float, as for bfloat16, its name has to tell.
    floating = array.dtype.kind != "c" and is_floating(array.dtype)
    if array.dtype.kind not in fits and not ("f" in fits and floating):
        raise InputError(
            f"data {source}: input {spec.name!r} expects {spec.dtype} values, received "
            f"{array.dtype}",
            f"Convert the array first, if that keeps its meaning: array.astype({spec.dtype!r})",
        )


# Kinds of values (NumPy's letters) that an input of a kind takes.
_FITTING = {"f": "fiub", "c": "fiubc", "i": "iub", "u": "iub", "b": "biu"}


def cast(value: ArrayLike, spec: TensorSpec, source: str) -> np.ndarray:
    """The array in the input's dtype.

    Raises:
        InputError: a shape, a kind of values or an integer does not fit.
    """
    array = np.asarray(value)
    check(array, spec, source)
    kind = kind_of(spec.dtype)
    if kind in "iub" and array.size:
        _check_range(array, spec, source)
    if kind in "fciub" and not spec.dtype.startswith("bfloat"):
        with np.errstate(over="ignore"):  # what becomes infinite is counted and said
            return array.astype(spec.dtype, copy=False)
    return array.astype(np.float32) if kind == "f" else array


def _check_range(array: np.ndarray, spec: TensorSpec, source: str) -> None:
    if spec.dtype == "bool":
        low, high = 0, 1
    else:
        limits = np.iinfo(spec.dtype)
        low, high = int(limits.min), int(limits.max)
    smallest, largest = int(array.min()), int(array.max())
    if smallest < low or largest > high:
        raise InputError(
            f"data {source}: input {spec.name!r} takes {spec.dtype}, {low} to {high}; received "
            f"values from {smallest} to {largest}",
            "Check how the array was made",
        )


def _shape_advice(array: np.ndarray, spec: TensorSpec) -> str:
    if spec.accepts(array[None]):
        return "The batch axis is missing: pass array[None], or batch the dataset"
    if spec.accepts(array[..., None]):
        return "The last axis is missing: pass array[..., None]"
    if array.ndim and array.shape[-1] == 1 and spec.accepts(array[..., 0]):
        return "There is one axis too many: pass array[..., 0]"
    if array.ndim and spec.accepts(array[0]):
        return f"Reshape it; if calls take one sample: --sample-axis {spec.name}=none (sample_axes)"
    return "Reshape or resize the array to fit"


def kind_of(dtype: str) -> str:
    """NumPy's kind letter; bfloat16 counts as float, a dtype that NumPy does not know as text."""
    if dtype.startswith("bfloat"):
        return "f"
    try:
        return np.dtype(dtype).kind
    except TypeError:
        return "O"
