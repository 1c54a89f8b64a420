"""The samples that a model is validated on: read in batches and checked against its inputs."""

import hashlib
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tfmp.converters.drift import Labels
from tfmp.converters.samples.files import load_labels, open_path
from tfmp.converters.samples.fit import arrays_by_name, cast, check, count_batch, kind_of
from tfmp.converters.samples.sources import Data, RawArrays, RawLabels, Stream, stream_of
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import Batch, TensorSpec, describe, texts

# More samples hardly move a relative L2 error, and a file is validated on all of them anyway.
SEARCH_SAMPLES = 256

# Sizes chosen where a signature leaves them open, for synthetic inputs.
_OPEN_IMAGE_SIDE = 64
_OPEN_LENGTH = 16


@dataclass(frozen=True)
class DataReport:
    """The samples that were compared.

    Attributes:
        source: the place they came from, such as a path.
        samples: number of samples.
        sha256: sum modulo 2**256 of the SHA-256 of each sample: names, dtypes, shapes and values as
            the model received them, with its labels. Neither batches nor order show in it, and
            the hashes of shards add up to that of the whole.
        synthetic: whether they were made up from the model's signature.
        labelled: whether labels came with them.
        nonfinite: number of values that are NaN or infinite, by input that holds any.
        notes: other facts that a reader should know.
    """

    source: str
    samples: int
    sha256: str
    synthetic: bool = False
    labelled: bool = False
    nonfinite: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def nonfinite_values(self) -> int:
        """The number of NaN and infinite values in all inputs together."""
        return sum(self.nonfinite.values())


class Dataset:
    """Batches that fit a model's inputs; `description` describes them once they are read."""

    def __init__(
        self,
        stream: Stream,
        inputs: Sequence[TensorSpec],
        labels: Labels | None = None,
        batch_size: int = 32,
        synthetic: bool = False,
    ) -> None:
        """See `open_data`."""
        self.inputs = tuple(inputs)
        self.samples = stream.samples
        fixed = {spec.shape[0] for spec in inputs if spec.shape and spec.shape[0] is not None}
        self._fixed_batch = fixed.pop() if fixed else None
        self._batch_size = self._fixed_batch or batch_size
        self._stream = stream
        self._labels = labels
        self._synthetic = synthetic
        self._reads = 0
        self._start_over()
        if stream.whole is not None:  # what does not fit is said before anything runs
            named = arrays_by_name(stream.whole, self.inputs, stream.name)
            for spec in self.inputs:
                check(np.asarray(named[spec.name]), spec, stream.name)

    def _start_over(self) -> None:
        self._content = 0
        self._count = 0
        self._left_out = 0
        self._labelled = False
        self._nonfinite = dict.fromkeys((spec.name for spec in self.inputs), 0)

    @property
    def once(self) -> bool:
        """Whether the data can be read only once."""
        return self._stream.once

    def batches(self) -> Iterator[tuple[Batch, Labels | None]]:
        """Reads the data once, from front to back.

        Yields:
            Arrays by input name in the inputs' dtypes, and the labels of these samples or None.

        Raises:
            InputError: arrays that do not fit the inputs, no samples, or a second reading of data
                that can be read only once.
        """
        if self._reads and self._stream.once:
            raise InputError(
                f"data {self._stream.name} can be read only once, and was. Pass arrays or a "
                "function that makes a new iterator."
            )
        self._reads += 1
        self._start_over()
        for arrays, labels in self._stream.batches(self._batch_size):
            batch = self._fit(arrays)
            rows = count_batch(batch, self._stream.name)
            if self._fixed_batch and rows != self._fixed_batch:
                self._reject_partial(rows)
                continue
            labels = self._labels_for(labels, rows)
            self._check_labelled(labels)
            self._content = add_hashes(self._content, *_sample_hashes(batch, labels))
            self._count += rows
            yield batch, labels
        self._check_end()

    def first(self) -> tuple[Batch, Labels | None] | None:
        """The first batch, for callers that check the data before they begin other work.

        Returns:
            The batch and its labels; None for data that can be read only once.

        Raises:
            InputError: the batch does not fit, or there are no samples.
        """
        if self._stream.once:
            return None
        return next(self.batches(), None)

    def for_search(self) -> list[Batch]:
        """The inputs of as many first batches as searches look at."""
        chosen: list[Batch] = []
        samples = 0
        for batch, _ in self.batches():
            chosen.append(batch)
            samples += count_batch(batch, self._stream.name)
            if samples >= SEARCH_SAMPLES:
                break
        return chosen

    @property
    def description(self) -> DataReport:
        """A description of the samples that have been read so far."""
        notes = list(self._stream.notes)
        if self._left_out:
            notes.append(
                f"the last {self._left_out} samples do not fill a batch of {self._fixed_batch}, "
                "which the model's input fixes, and were left out"
            )
        return DataReport(
            source=self._stream.name,
            samples=self._count,
            sha256=f"{self._content:064x}",
            synthetic=self._synthetic,
            labelled=self._labelled,
            nonfinite={name: count for name, count in self._nonfinite.items() if count},
            notes=tuple(notes),
        )

    def _fit(self, arrays: RawArrays) -> Batch:
        named = arrays_by_name(arrays, self.inputs, self._stream.name)
        batch = {}
        for spec in self.inputs:
            array = cast(named[spec.name], spec, self._stream.name)
            if array.dtype.kind == "f":
                self._nonfinite[spec.name] += int(np.count_nonzero(~np.isfinite(array)))
            batch[spec.name] = array
        return batch

    def _reject_partial(self, rows: int) -> None:
        if self._left_out or rows > (self._fixed_batch or 0) or not self._count:
            raise InputError(
                f"data {self._stream.name}: a batch has {rows} samples, but the model's input "
                f"fixes the batch at {self._fixed_batch}: {describe(self.inputs)}. Pass batches of "
                "that size."
            )
        self._left_out = rows

    def _labels_for(self, labels: RawLabels, rows: int) -> Labels | None:
        if self._labels is not None:
            start, stop = self._count, self._count + rows
            labels = _each(self._labels, lambda array: array[start:stop])
        if labels is None:
            return None
        labels = _each(labels, np.asarray)
        lengths = {len(array) for array in _values(labels)}
        if lengths != {rows}:
            raise InputError(
                f"data {self._stream.name}: {' and '.join(map(str, lengths))} labels came for "
                f"{rows} samples. Pass one label for each sample."
            )
        return labels

    def _check_labelled(self, labels: Labels | None) -> None:
        """Accuracy on a part of the samples would stand beside distances on all of them."""
        if self._count and self._labelled != (labels is not None):
            raise InputError(
                f"data {self._stream.name}: labels came with some batches and not with others. "
                "Pass them with every batch, or leave them out."
            )
        self._labelled = labels is not None

    def _check_end(self) -> None:
        if self._count == 0:
            raise InputError(
                f"data {self._stream.name} is empty: it gave no samples. Pass at least one; a "
                "verdict needs some hundred."
            )
        given = {len(array) for array in _values(self._labels)} - {self._count + self._left_out}
        if given:
            raise InputError(
                f"{given.pop()} labels were given for {self._count + self._left_out} samples of "
                f"{self._stream.name}. Pass one label for each sample, in the same order."
            )


def open_data(
    data: Data,
    inputs: Sequence[TensorSpec],
    labels: RawLabels = None,
    batch_size: int = 32,
) -> Dataset:
    """Opens the samples for a model with these inputs.

    Args:
        data: path of an .npz or .npy file or of a folder of images; "package.module:function";
            dict of arrays by input name; array (one input); (x, y); iterable of batches, such as a
            tf.data.Dataset. Each batch is x, (x, y) or (x, y, weight).
        inputs: the model's inputs.
        labels: path of an .npy or .npz file, array, or dict of arrays by output name; None to take
            those that come with the data, if any.
        batch_size: samples at a time; iterables bring their own.

    Raises:
        InputError: the data is missing, unreadable or empty, or does not fit the inputs.
    """
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, received {batch_size}.")
    if isinstance(data, str | os.PathLike):
        stream = open_path(os.fspath(data), inputs)
    else:
        stream = stream_of(data, inputs)
    if isinstance(labels, str | os.PathLike):
        labels = load_labels(labels)
    if labels is not None:
        labels = _each(labels, np.asarray)
        _check_label_count(labels, stream)
    return Dataset(stream, inputs, labels, batch_size)


def synthetic(
    inputs: Sequence[TensorSpec], seed: int = 0, samples: int = 64, batch_size: int = 32
) -> Dataset:
    """Samples made up from the signature: they can show that a model is broken, never that it is
    sound.

    Floats are standard normal and uniform in [0, 1) by turns of samples, integers 0 or 1 (inside
    any vocabulary), texts "a". Open sizes are 64 for images and 16 elsewhere.

    Args:
        inputs: the model's inputs.
        seed: seed of the generator; the same seed and signature give the same samples.
        samples: number of samples; there are more if a fixed batch size would leave some out.
        batch_size: samples at a time.
    """
    fixed = next((spec.shape[0] for spec in inputs if spec.shape and spec.shape[0]), None)
    if fixed:
        samples = -(-samples // fixed) * fixed
    arrays = {spec.name: _made_up(spec, seed, samples) for spec in inputs}
    stream = replace(stream_of(arrays, inputs), name=f"synthetic (seed {seed})")
    return Dataset(stream, inputs, None, batch_size, synthetic=True)


def _made_up(spec: TensorSpec, seed: int, samples: int) -> np.ndarray:
    open_size = _OPEN_IMAGE_SIDE if len(spec.shape) == 4 else _OPEN_LENGTH
    shape = (samples, *(open_size if size is None else size for size in spec.shape[1:]))
    generator = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
    if not spec.shape:  # an input without axes, one for all samples
        return _made_up(replace(spec, shape=(1,)), seed, 1)[0]
    kind = kind_of(spec.dtype)
    if kind == "f":
        values = generator.standard_normal(shape, dtype=np.float32)
        values[1::2] = generator.random((samples // 2, *shape[1:]), dtype=np.float32)
        return values
    if kind in "iub":
        return generator.integers(0, 2, shape).astype(spec.dtype)
    return np.full(shape, "a", dtype=object)


def _each(arrays: RawLabels, change: Callable[[Any], np.ndarray]) -> Labels:
    if isinstance(arrays, Mapping):
        return {name: change(array) for name, array in arrays.items()}
    return change(arrays)


def _values(labels: Labels | None) -> list[np.ndarray]:
    if labels is None:
        return []
    return list(labels.values()) if isinstance(labels, Mapping) else [labels]


def _check_label_count(labels: Labels, stream: Stream) -> None:
    for array in _values(labels):
        if array.ndim == 0 or (stream.samples is not None and len(array) != stream.samples):
            given = f"{len(array)} labels were" if array.ndim else "a single value was"
            raise InputError(
                f"{given} given for {stream.samples or 'the'} samples of {stream.name}. Pass one "
                "label for each sample, in the same order."
            )


def add_hashes(*hashes: int) -> int:
    """The hash of all samples together, from the hashes of single samples or of shards."""
    return sum(hashes) % 2**256


def _sample_hashes(batch: Batch, labels: Labels | None) -> Iterator[int]:
    """SHA-256 of each sample of a batch."""
    arrays = {f"input {name}": array for name, array in batch.items()}
    if isinstance(labels, Mapping):
        arrays |= {f"labels {name}": array for name, array in labels.items()}
    elif labels is not None:
        arrays["labels"] = labels
    named = sorted(arrays.items())
    # With names, dtypes and shapes in front, the values that follow can be read in one way only.
    layout = repr([(name, _layout(array), array.shape[1:]) for name, array in named]).encode()
    rows = count_batch(arrays, "data")
    columns = [
        _rows_as_bytes(array if array.ndim else np.broadcast_to(array, rows)) for _, array in named
    ]
    for row in zip(*columns, strict=True):
        digest = hashlib.sha256(layout)
        for content in row:
            digest.update(content)
        yield int.from_bytes(digest.digest())


def _layout(array: np.ndarray) -> str:
    return "text" if array.dtype.kind in "OSU" else str(array.dtype)


def _rows_as_bytes(array: np.ndarray) -> Iterator[bytes]:
    if array.dtype.kind in "OSU":
        for row in texts(array):
            yield repr(np.asarray(row).ravel().tolist()).encode()
    else:
        yield from (row.tobytes() for row in array)
