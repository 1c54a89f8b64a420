"""The samples that a model is validated on: read in batches and checked against its inputs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from tfmp.converters.drift import Labels
from tfmp.converters.samples.files import load_labels, open_path
from tfmp.converters.samples.fit import arrays_by_name, cast, check
from tfmp.converters.samples.hashes import add_hashes, hash_samples
from tfmp.converters.samples.sources import (
    Data,
    RawArrays,
    RawLabels,
    Stream,
    as_labels,
    changed,
    count_batch,
    stream_of,
)
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.layout import PLAIN, Layout
from tfmp.converters.shared.tensors import Batch, TensorSpec, describe
from tfmp.shared.report_files import Count, Sha256

# More samples hardly move a relative L2 error, and a file is validated on all of them anyway.
SEARCH_SAMPLES = 256


@dataclass(frozen=True)
class DataReport:
    """The samples that were compared.

    Attributes:
        source: the place they came from, such as a path.
        samples: number of samples.
        sha256: sum modulo 2**256 of the SHA-256 of each sample: names, dtypes, shapes and values as
            the model received them, with its labels. It depends neither on batches nor on order,
            and the hashes of shards add up to the hash of the whole.
        synthetic: whether they were made up from the model's signature.
        labelled: whether labels came with them.
        nonfinite: number of values that are NaN or infinite, by input that holds any.
        notes: other facts that a reader should know.
        sizes: the smallest and the largest size that was seen of each open axis of an input, such
            as {"tokens axis 1": (16, 128)}.
    """

    source: str
    samples: Count
    sha256: Sha256
    synthetic: bool = False
    labelled: bool = False
    nonfinite: Mapping[str, Count] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def merged_sizes(
    one: Mapping[str, tuple[int, ...]], other: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """The smallest and the largest of both, by axis."""
    return {
        axis: (min(seen), max(seen))
        for axis in {**one, **other}
        for seen in [(*one.get(axis, ()), *other.get(axis, ()))]
    }


@dataclass(frozen=True)
class SampleBatch:
    """Samples that are run and compared together.

    Attributes:
        inputs: arrays by input name, in the inputs' dtypes.
        labels: labels of these samples; None without labels.
        digests: the hash of each sample with its labels.
        keys: uint64 of shape (samples,); samples with the same inputs have the same key.
    """

    inputs: Batch
    labels: Labels | None
    digests: list[int]
    keys: np.ndarray

    def __len__(self) -> int:
        return len(self.digests)

    def singly(self) -> Iterator["SampleBatch"]:
        """Batches of one sample each."""
        for row in range(len(self)):
            one = slice(row, row + 1)
            inputs = {k: array[one] if array.ndim else array for k, array in self.inputs.items()}
            labels = changed(self.labels, itemgetter(one))
            yield SampleBatch(inputs, labels, self.digests[one], self.keys[one])


@dataclass(frozen=True)
class Samples:
    """Samples that fit a model's inputs, open and not read yet.

    Attributes:
        stream: the samples as users have them.
        inputs: the model's inputs.
        labels: labels of all samples; None to take the labels of the stream, if any.
        batch_size: number of samples at a time, if the model leaves it open.
        one_by_one: also cut the batches that iterables bring into single samples.
        synthetic: whether the samples were made up from the model's signature.
        layout: the way from these arrays to those of the model.
        calls: gives the arrays of the model's own calls on a batch.
    """

    stream: Stream
    inputs: tuple[TensorSpec, ...]
    labels: Labels | None = None
    batch_size: int = 32
    synthetic: bool = False
    one_by_one: bool = False
    layout: Layout = PLAIN
    calls: Callable[[Batch], Iterable[Batch]] = lambda batch: (batch,)

    def __post_init__(self) -> None:
        if self.stream.whole is not None:  # what does not fit is said before anything runs
            named = arrays_by_name(self.stream.whole, self.inputs, self.stream.name)
            for spec in self.inputs:
                check(np.asarray(named[spec.name]), spec, self.stream.name)

    @property
    def fixed_batch(self) -> int | None:
        """The batch size that the model fixes; None if it takes any."""
        return PLAIN.fixed_samples(self.inputs)

    def read(self) -> "Reading":
        """Begins to read the samples from front to back."""
        return Reading(self)

    def batches(self) -> Iterator[Batch]:
        """The arrays of all calls of the model, read from front to back."""
        return (call for batch in self.read() for call in self.calls(batch.inputs))

    def first(self) -> SampleBatch | None:
        """The first batch, for callers that check the data before they begin other work.

        Returns:
            The batch; None for data that can be read only once.

        Raises:
            InputError: the batch does not fit, or there are no samples.
        """
        return None if self.stream.once else next(iter(self.read()), None)

    def for_search(self) -> list[tuple[Batch, Labels | None]]:
        """The arrays of as many first calls of the model as searches look at, and their labels.

        Several calls on one batch, such as the steps of a sequence, have no labels of their own.
        """
        chosen: list[tuple[Batch, Labels | None]] = []
        samples = 0
        for batch in self.read():
            calls = list(self.calls(batch.inputs))
            labels = batch.labels if len(calls) == 1 else None
            for call in calls:
                chosen.append((call, labels))
                samples += len(batch)
                if samples >= SEARCH_SAMPLES:
                    return chosen
        return chosen


class Reading:
    """One way through the samples; `description` describes those that it has passed."""

    def __init__(self, samples: Samples) -> None:
        """Begins before the first sample."""
        self._samples = samples
        self._name, self._fixed_batch = samples.stream.name, samples.fixed_batch
        self._content = 0
        self._count = 0
        self._left_out = 0
        self._labelled = False
        self._nonfinite = dict.fromkeys((spec.name for spec in samples.inputs), 0)
        self._sizes: dict[str, tuple[int, ...]] = {}

    def __iter__(self) -> Iterator[SampleBatch]:
        """The batches, each once.

        Raises:
            InputError: arrays that do not fit the inputs, no samples, or a second reading of data
                that can be read only once.
        """
        one_by_one = self._samples.one_by_one
        batch_size = self._fixed_batch or (1 if one_by_one else self._samples.batch_size)
        for arrays, labels in self._samples.stream.batches(batch_size):
            batch = self._fit(arrays)
            rows = count_batch(batch, self._name)
            if self._fixed_batch and rows != self._fixed_batch:
                self._reject_partial(rows)
                continue
            labels = self._labels_for(labels, rows)
            self._check_labelled(labels)
            whole = SampleBatch(batch, labels, *hash_samples(batch, labels))
            self._sizes = merged_sizes(self._sizes, self._open_sizes(batch))
            for part in whole.singly() if one_by_one else (whole,):
                self._content = add_hashes(self._content, *part.digests)
                self._count += len(part)
                yield part
        self._check_end()

    def _open_sizes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """The size of each axis that the model leaves open, behind that of the samples."""
        return {
            f"{spec.name} axis {axis}": (batch[spec.name].shape[axis],) * 2
            for spec in self._samples.inputs
            for axis, size in enumerate(spec.shape)
            if axis and size is None and batch[spec.name].ndim > axis
        }

    @property
    def description(self) -> DataReport:
        """A description of the samples that have been read so far."""
        notes = list(self._samples.stream.notes)
        if self._left_out:
            notes.append(
                f"the last {self._left_out} samples do not fill a batch of {self._fixed_batch}, "
                "which the model's input fixes, and were left out"
            )
        return DataReport(
            source=self._name,
            samples=self._count,
            sha256=f"{self._content:064x}",
            synthetic=self._samples.synthetic,
            labelled=self._labelled,
            nonfinite={name: count for name, count in self._nonfinite.items() if count},
            notes=tuple(notes),
            sizes=self._sizes,
        )

    def _fit(self, arrays: RawArrays) -> Batch:
        named = arrays_by_name(arrays, self._samples.inputs, self._name)
        batch = {}
        for spec in self._samples.inputs:
            array = cast(named[spec.name], spec, self._name)
            if array.dtype.kind == "f":
                self._nonfinite[spec.name] += array.size - int(np.count_nonzero(np.isfinite(array)))
            batch[spec.name] = array
        return batch

    def _reject_partial(self, rows: int) -> None:
        if self._left_out or rows > (self._fixed_batch or 0) or not self._count:
            raise InputError(
                f"data {self._name}: a batch has {rows} samples, but the model's input fixes the "
                f"batch at {self._fixed_batch}: {describe(self._samples.inputs)}",
                "Pass batches of that size",
            )
        self._left_out = rows

    def _labels_for(self, labels: RawLabels, rows: int) -> Labels | None:
        if self._samples.labels is not None:
            start, stop = self._count, self._count + rows
            labels = changed(self._samples.labels, itemgetter(slice(start, stop)))
        labels = as_labels(labels)
        if any(len(array) != rows for array in _values(labels)):
            if self._samples.labels is not None:  # what the user passed, not this batch's part
                _check_label_count(self._samples.labels, self._count + rows, self._name)
            _check_label_count(labels, rows, self._name)
        return labels

    def _check_labelled(self, labels: Labels | None) -> None:
        """Accuracy on a part of the samples would stand beside distances on all of them."""
        if self._count and self._labelled != (labels is not None):
            raise InputError(
                f"data {self._name}: labels came with some batches and not with others",
                "Pass them with every batch, or leave them out",
            )
        self._labelled = labels is not None

    def _check_end(self) -> None:
        if self._count == 0:
            raise InputError(
                f"data {self._name} is empty: it gave no samples",
                "Pass at least one; an iterator gives them only once",
            )
        _check_label_count(self._samples.labels, self._count + self._left_out, self._name)


def open_data(
    data: Data,
    inputs: Sequence[TensorSpec],
    labels: RawLabels = None,
    batch_size: int = 32,
) -> Samples:
    """Opens the samples for a model with these inputs.

    Args:
        data: path of an .npz or .npy file or of a folder of images; "FILE.py:function";
            dict of arrays by input name; array (one input); (x, y); iterable of batches, such as a
            tf.data.Dataset. Each batch is x, (x, y) or (x, y, weight).
        inputs: the model's inputs.
        labels: path of an .npy or .npz file, array, or dict of arrays by output name; None to take
            those that come with the data, if any.
        batch_size: samples at a time; iterables bring their own.

    Raises:
        InputError: the data is missing, unreadable or empty, or does not fit the inputs.
    """
    stream = stream_for(data, inputs)
    if isinstance(labels, str | os.PathLike):
        labels = load_labels(labels)
    labels = as_labels(labels)
    _check_label_count(labels, stream.samples, stream.name)
    return Samples(stream, tuple(inputs), labels, batch_size)


def stream_for(data: Data, inputs: Sequence[TensorSpec]) -> Stream:
    """The samples of a path or an object; see `open_data`."""
    if isinstance(data, str | os.PathLike):
        return open_path(os.fspath(data), inputs)
    return stream_of(data, inputs)


def whole_numbers(data: Data, inputs: Sequence[TensorSpec]) -> dict[str, str]:
    """The dtypes of those inputs that the data holds as integers or Booleans.

    Args:
        data: see `open_data`.
        inputs: the model's, whose dtypes may be unknown.

    Raises:
        InputError: see `open_data`.
    """
    stream = stream_for(data, inputs)
    if (arrays := stream.head) is None:
        return {}
    named = arrays_by_name(arrays, inputs, stream.name)
    found = {name: np.asarray(array).dtype for name, array in named.items()}
    return {name: dtype.name for name, dtype in found.items() if dtype.kind in "iub"}


def _values(labels: Labels | None) -> list[np.ndarray]:
    if labels is None:
        return []
    return list(labels.values()) if isinstance(labels, Mapping) else [labels]


def _check_label_count(labels: Labels | None, samples: int | None, name: str) -> None:
    """Raises `InputError` for labels that are not one for each sample; None if it is unknown."""
    for array in _values(labels):
        if array.ndim == 0 or samples not in (None, len(array)):
            given = f"{len(array)} labels were" if array.ndim else "a single value was"
            raise InputError(
                f"{given} given for {samples or 'the'} samples of {name}",
                "Pass one label for each sample, in the same order",
            )
