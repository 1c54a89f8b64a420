"""Batches that a model trains on, from the forms that users have their data in."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from tfmp.shared.backend import Tensor, TensorTree

# A tuple (x, y) or (x, y, sample_weight) of arrays, or an iterable of batches with this form: a
# list, a `tf.data.Dataset`, a `keras.utils.PyDataset`.
TrainingData: TypeAlias = tuple[TensorTree, ...] | Iterable[Sequence[TensorTree]]


class TrainingBatch(NamedTuple):
    """The data of one training step.

    Attributes:
        x: the inputs.
        y: the targets.
        sample_weight: a weight for each sample, or None.
    """

    x: TensorTree
    y: TensorTree
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
        """The batch on the device, as `fit` hands it to a step: weights only if there are any.

        Args:
            floatx: dtype of float64 arrays on the device; by default Keras's floatx.
        """
        x, y, weight = self.map(lambda array: as_tensor(array, floatx))
        return (x, y) if weight is None else (x, y, weight)


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
        data: a tuple of arrays, which is cut into batches, or an iterable of batches.
        size: number of samples in a batch of arrays; the last batch may have fewer.

    Raises:
        TypeError: the data has another form, or a batch has no targets.
    """
    import keras

    if isinstance(data, tuple):
        whole = _unpacked(data)
        for start in range(0, whole.samples, size):
            yield whole.map(itemgetter(slice(start, start + size)))
    elif isinstance(data, keras.utils.PyDataset):
        for index in range(len(data)):
            yield _unpacked(data[index])
    elif isinstance(data, Iterable) and not hasattr(data, "shape") and not isinstance(data, dict):
        for batch in data:
            yield _unpacked(batch)
    else:
        raise TypeError(
            "data expects (x, y) arrays, or an iterable of (x, y) batches such as a "
            f"tf.data.Dataset; received {type(data).__name__}."
        )


def _unpacked(batch: object) -> TrainingBatch:
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        size = f" of length {len(batch)}" if isinstance(batch, tuple | list) else ""
        raise TypeError(
            "A batch expects (x, y) or (x, y, sample_weight); received "
            f"{type(batch).__name__}{size}. Gradients need targets."
        )
    return TrainingBatch(*batch)
