"""Batches that a model trains on, from the forms that users have their data in."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.wording import first_line

# A tuple (x, y) or (x, y, sample_weight) of arrays, or an iterable of batches with this form: a
# list, a `tf.data.Dataset`, a `keras.utils.PyDataset`. Models that make their own targets take x.
TrainingData: TypeAlias = tuple[TensorTree, ...] | Iterable[Sequence[TensorTree]]

# More batches than this make no step more typical, and all of them are kept on the device.
_MOST_BATCHES = 8


class TrainingBatch(NamedTuple):
    """The data of one training step.

    Attributes:
        x: the inputs.
        y: the targets.
        sample_weight: a weight for each sample, or None.
    """

    x: TensorTree
    y: TensorTree = None
    sample_weight: TensorTree = None

    @property
    def samples(self) -> int:
        """The number of samples in the batch."""
        from keras import tree

        return len(tree.flatten(self.x)[0])

    def map(self, function: Callable[[Tensor], Tensor]) -> "TrainingBatch":
        """The batch with a function applied to each of its arrays."""
        from keras import tree

        return TrainingBatch(
            *(None if part is None else tree.map_structure(function, part) for part in self)
        )

    def placed(self, floatx: str | None = None) -> tuple[TensorTree, ...]:
        """The batch on the device, as `fit` hands it to a step: only the parts that there are.

        Args:
            floatx: dtype of float64 arrays on the device; by default Keras's floatx.
        """
        x, y, weight = self.map(lambda array: as_tensor(array, floatx))
        if weight is None:
            return (x,) if y is None else (x, y)
        return x, y, weight


def as_tensor(array: Tensor | np.ndarray, floatx: str | None = None) -> Tensor:
    """An array as a tensor of the backend; float64 becomes floatx, as in Keras's data adapters."""
    import keras

    if not keras.ops.is_tensor(array):
        array = np.asarray(array)
    dtype = (floatx or keras.config.floatx()) if array.dtype == np.float64 else None
    return keras.ops.convert_to_tensor(array, dtype=dtype)


def labelled_batches(data: TrainingData, size: int) -> Iterator[TrainingBatch]:
    """The batches of data in any form.

    Args:
        data: a tuple of arrays, which is cut into batches, or an iterable of batches. An array, a
            dict or list of arrays is x alone, as in `fit`.
        size: number of samples in a batch of arrays; the last batch may have fewer.

    Raises:
        TypeError: the data has another form.
        ValueError: arrays that are cut into batches have different lengths.
    """
    import keras

    if _is_x(data):
        data = (data,)
    if isinstance(data, tuple):
        whole = _unpacked(data)
        _check_lengths(whole)
        for start in range(0, whole.samples, size):
            yield whole.map(itemgetter(slice(start, start + size)))
    elif isinstance(data, keras.utils.PyDataset):
        for index in range(len(data)):
            yield _unpacked(data[index])
    elif isinstance(data, Iterable):
        for batch in data:
            yield _unpacked(batch)
    else:
        raise TypeError(
            "data expects (x, y) arrays, or an iterable of (x, y) batches such as a "
            f"tf.data.Dataset; received {type(data).__name__}."
        )


def whole_batches(data: TrainingData, batch_size: int) -> list[TrainingBatch]:
    """Some batches of one shape: another shape would compile another step.

    Raises:
        TypeError, ValueError: as of `labelled_batches`, or there is no batch, or reading one raised
            an error.
    """
    from keras import tree

    found: list[TrainingBatch] = []
    shapes: list[tuple[int, ...]] = []
    for batch in readable(islice(labelled_batches(data, batch_size), 2 * _MOST_BATCHES)):
        here = [tuple(part.shape) for part in tree.flatten(batch) if hasattr(part, "shape")]
        shapes = shapes if found else here
        if here == shapes:
            found.append(batch)
    if not found or not found[0].samples:
        raise ValueError("data expects at least one batch with samples; received no such batch.")
    return found[:_MOST_BATCHES]


def readable(batches: Iterable[TrainingBatch]) -> Iterator[TrainingBatch]:
    """The batches; an error of the user's own code becomes a mistake in the data.

    Raises:
        ValueError: reading a batch raised an error.
    """
    try:
        yield from batches
    except (TypeError, ValueError):
        raise
    except Exception as error:
        raise ValueError(
            f"data expects batches; reading one raised {type(error).__name__}: {first_line(error)}"
        ) from error


def _is_x(data: object) -> bool:
    """Whether data is x alone: an array, a dict, or a list with an array for each input."""
    if isinstance(data, list):
        return bool(data) and all(hasattr(one, "shape") for one in data)
    return hasattr(data, "shape") or isinstance(data, dict)


def _unpacked(batch: object) -> TrainingBatch:
    parts = batch if isinstance(batch, tuple | list) else (batch,)
    if len(parts) not in (1, 2, 3):
        raise TypeError(
            "A batch expects x, (x, y) or (x, y, sample_weight); received "
            f"{type(batch).__name__} of length {len(parts)}."
        )
    unpacked = TrainingBatch(*parts)
    for name, array in _arrays(unpacked):
        _check_array(name, array)
    return unpacked


def _arrays(batch: TrainingBatch) -> Iterator[tuple[str, Tensor]]:
    """Each array with the name of its part."""
    from keras import tree

    for name, part in batch._asdict().items():
        yield from ((name, array) for array in tree.flatten(part) if array is not None)


def _check_array(name: str, array: object) -> None:
    objects = isinstance(array, np.ndarray) and array.dtype == object and array.size
    first = array.flat[0] if objects else None  # type: ignore[attr-defined]
    if getattr(array, "shape", ()) == ():
        received = f"single values of type {type(array).__name__}"
    elif isinstance(first, list | tuple | np.ndarray):
        received = f"an array of {type(first).__name__}s"
    else:
        return
    raise TypeError(
        f"data expects arrays in {name}; received {received}. Pass a numpy.array of numbers, in "
        "which all rows have the same length: pad shorter ones."
    )


def _check_lengths(whole: TrainingBatch) -> None:
    lengths = [(name, array.shape[0]) for name, array in _arrays(whole)]
    if len({length for _, length in lengths}) > 1:
        found = " and ".join(f"{length} in {name}" for name, length in dict.fromkeys(lengths))
        raise ValueError(f"data expects arrays of as many samples each; received {found}.")
