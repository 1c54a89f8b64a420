"""Hashes of samples: of each by itself, so that neither batches nor order show in their sum."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np

from tfmp.converters.drift import Labels
from tfmp.converters.samples.fit import count_batch
from tfmp.converters.shared.tensors import Batch, texts


def add_hashes(*hashes: int) -> int:
    """The hash of all samples together, from the hashes of single samples or of shards."""
    return sum(hashes) % 2**256


def sample_hashes(batch: Batch, labels: Labels | None) -> Iterator[int]:
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
