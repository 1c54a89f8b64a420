"""Python objects as streams of batches: arrays, dicts, (x, y), iterables, tf.data.

`data.py` checks the arrays; here they are only found.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.converters.shared.user_functions import place_of

# What users have their samples in, see `FORMS`; a batch of it may be any such object too.
Data: TypeAlias = Any

# Arrays as found: by name, a list in input order, or one alone.
RawArrays: TypeAlias = Any

# Labels as found: None, or array-likes as in `compare.Labels`.
RawLabels: TypeAlias = Any

RawBatch = tuple[RawArrays, RawLabels]

# In an .npz file and in a dict of arrays: labels, or labels of one output.
LABELS = "labels"
_LABELS_OF = "labels."

FORMS = (
    "an .npz or .npy file, a folder of images in class folders, or FILE.py:function; in "
    "Python also a dict of arrays, an array, (x, y), an iterable of batches, or a function that "
    "returns one of these"
)


@dataclass(frozen=True)
class Stream:
    """Samples in batches.

    Attributes:
        name: the place they come from, for people.
        batches: function that gives an iterator of (arrays, labels or None) for a batch size.
        samples: number of samples; None if it is unknown before they are read.
        whole: the arrays as found, or stand-ins of their shapes and dtypes; None if they are
            unknown before they are read.
        once: whether the batches can be read only once, as from a generator.
        notes: facts that a reader of the report should know.
        classes: names of the folders whose places are the labels; empty for other labels.
    """

    name: str
    batches: Callable[[int], Iterator[RawBatch]]
    samples: int | None = None
    whole: RawArrays = None
    once: bool = False
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def head(self) -> RawArrays:
        """The whole arrays, or those of the first batch; None if they can be read only once."""
        if self.whole is not None or self.once:
            return self.whole
        return next(self.batches(1), (None, None))[0]


def stream_of(data: Data, inputs: Sequence[TensorSpec]) -> Stream:
    """The samples that a Python object holds.

    Raises:
        InputError: the object is of another kind or has no samples, or its arrays have different
            numbers of samples.
    """
    if isinstance(data, Mapping):
        values, labels = without_labels(data, inputs)
        return stream_of_arrays("dict of arrays", changed(values, np.asarray), labels)
    if isinstance(data, np.ndarray):
        return stream_of_arrays("array", data)
    if _is_one_for_each(data, inputs):
        name = f"{type(data).__name__} of arrays"
        return stream_of_arrays(name, list(data))
    if isinstance(data, tuple) and len(data) == 2:
        return stream_of_arrays("(x, y)", changed(data[0], np.asarray), data[1])
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        name = f"{type(data).__name__} of batches"
        once = isinstance(data, Iterator)
        return Stream(name, lambda size: (_split(each, inputs) for each in data), once=once)
    if callable(data):
        return called(getattr(data, "__qualname__", type(data).__name__), data, inputs)
    raise InputError(
        f"data of type {type(data).__name__} cannot be read; expected {FORMS}",
        "Pass one of these",
    )


def _is_one_for_each(data: Data, inputs: Sequence[TensorSpec]) -> bool:
    """Whether the samples are one array for each of several inputs, as Keras's `fit` takes them.

    For a model with one input a list is one of batches, and a pair is (x, y).
    """
    return (
        isinstance(data, list | tuple)
        and len(data) == len(inputs) > 1
        and all(isinstance(part, np.ndarray) for part in data)
    )


def called(text: str, function: Callable[[], Data], inputs: Sequence[TensorSpec]) -> Stream:
    """The samples that a user's function returns; it is called again if they can be read only once.

    Raises:
        InputError: the function, named `text`, fails, or its result cannot be read.
    """
    used: list[Data] = []

    def call() -> Stream:
        try:
            result = function()
        except (Exception, SystemExit) as error:  # whatever the user's function does
            raise _raised_by_user(text, error) from error
        if result is None or isinstance(result, str | os.PathLike):
            raise InputError(
                f"data {text!r} returned {result!r}; expected an iterable of batches",
                "Return arrays, or pass the path itself",
            )
        if isinstance(result, Iterator) and result in used:
            raise InputError(
                f"data {text!r} returned an iterator twice", "Make a new one each time"
            )
        used[:] = [result]
        try:
            return stream_of(result, inputs)
        except InputError as error:
            raise InputError(f"data {text!r}: {error}") from error

    stream = call()
    unread = [stream]

    def batches(size: int) -> Iterator[RawBatch]:
        found = unread.pop() if unread else call() if stream.once else stream
        return _guarded(text, found.batches(size))

    return replace(stream, name=text, batches=batches, once=False)


def _guarded(text: str, batches: Iterator[RawBatch]) -> Iterator[RawBatch]:
    try:
        yield from batches
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the user's generator runs here
        raise _raised_by_user(text, error) from error


def _raised_by_user(text: str, error: BaseException) -> InputError:
    """The error that a user's function raised, and its place."""
    return InputError(
        f"data {text!r} raised {type(error).__name__}: {error}{place_of(error)}",
        "Fix the function; it takes no arguments and returns an iterable of batches",
    )


def _split(element: Data, inputs: Sequence[TensorSpec]) -> RawBatch:
    """A batch as Keras understands one: x, (x, y) or (x, y, sample_weight)."""
    if isinstance(element, tuple):
        return element[0], element[1] if len(element) > 1 else None
    if isinstance(element, Mapping):
        return without_labels(element, inputs)
    return element, None


def without_labels(arrays: Mapping[str, ArrayLike], inputs: Sequence[TensorSpec]) -> RawBatch:
    """Splits labels off arrays by name: "labels", or "labels.OUTPUT" for one output.

    Beside an array x for a model with one input, y is the labels, as Keras calls them.
    """
    if LABELS in {spec.name for spec in inputs}:  # then that name is no label
        return arrays, None
    if len(inputs) == 1 and set(arrays) == {"x", "y"} and inputs[0].name != "y":
        return {"x": arrays["x"]}, arrays["y"]
    rest = {
        name: array
        for name, array in arrays.items()
        if name != LABELS and not name.startswith(_LABELS_OF)
    }
    by_output = {
        name.removeprefix(_LABELS_OF): array
        for name, array in arrays.items()
        if name.startswith(_LABELS_OF)
    }
    if LABELS in arrays and by_output:
        raise InputError(
            f"data has both 'labels' and {_LABELS_OF + next(iter(by_output))!r}",
            "Name all labels after outputs, or pass only 'labels'",
        )
    return rest, by_output or arrays.get(LABELS)


def _slices(arrays: RawArrays, labels: RawLabels, rows: int, size: int) -> Iterator[RawBatch]:
    for start in range(0, rows, size):
        cut = itemgetter(slice(start, start + size))
        yield _cut(arrays, cut), _cut(labels, cut)


def _cut(arrays: RawArrays, cut: Callable[[Any], np.ndarray]) -> RawArrays:
    # An array without axes is for all samples.
    return changed(arrays, lambda array: cut(array) if array.ndim else array)


def changed(arrays: RawArrays, change: Callable[[Any], np.ndarray]) -> RawArrays:
    """Arrays or labels in the same form, each of them changed; None stays."""
    if isinstance(arrays, Mapping):
        return {name: change(array) for name, array in arrays.items()}
    if isinstance(arrays, list | tuple):
        return [change(array) for array in arrays]
    return None if arrays is None else change(arrays)


def as_labels(labels: RawLabels) -> RawLabels:
    """Labels as an array, or as arrays by output."""
    by_output = labels is None or isinstance(labels, Mapping)
    return changed(labels, np.asarray) if by_output else np.asarray(labels)


def stream_of_arrays(name: str, arrays: RawArrays, labels: RawLabels = None) -> Stream:
    """The samples of whole arrays, in batches."""
    labels = as_labels(labels)
    rows = count_rows(name, arrays, labels)
    return Stream(name, lambda size: _slices(arrays, labels, rows, size), rows, arrays)


def count_rows(name: str, arrays: RawArrays, labels: RawLabels) -> int:
    """The number of samples, which is the same for all arrays.

    An array without axes, beside others, is an input that all samples share.

    Raises:
        InputError: there are no samples, or the arrays have different numbers.
    """
    found: dict[str, np.ndarray] = {}
    for what, group in (("input", arrays), ("labels of", labels)):
        if isinstance(group, Mapping):
            found |= {f"{what} {key!r}": array for key, array in group.items()}
        elif isinstance(group, list):
            found |= {f"{what} {index}": array for index, array in enumerate(group)}
        elif group is not None:
            found["the labels" if group is labels else "the input"] = group
    several = any(array.ndim for array in found.values())
    lengths = {
        key: array.shape[0] if array.ndim else 0
        for key, array in found.items()
        if array.ndim or not (several and key.startswith("input "))
    }
    if not lengths or 0 in lengths.values():
        empty = next((key for key, length in lengths.items() if length == 0), "it")
        single = empty in found and found[empty].ndim == 0
        lacks = "has one value without an axis of samples" if single else "has no samples"
        raise InputError(
            f"data {name} is empty: {empty} {lacks}",
            "Pass at least one; a verdict needs some hundred",
        )
    return count_batch(found, name)


def count_batch(arrays: Mapping[str, np.ndarray], source: str) -> int:
    """The number of samples of some arrays; one without axes belongs to all of them.

    Raises:
        InputError: they have different numbers.
    """
    counts = {name: len(array) for name, array in arrays.items() if array.ndim}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise InputError(
            f"data {source} has different numbers of samples ({listed})",
            "Pass the same number of each, in the same order",
        )
    return next(iter(counts.values()), 1)
