"""Hashes of samples: of each by itself, so that neither batches nor order show in their sum."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np

from tfmp.converters.drift import Labels
from tfmp.converters.samples.sources import count_batch
from tfmp.converters.shared.tensors import Batch, texts

_KEY_BYTES = 8


def add_hashes(*hashes: int) -> int:
    """The hash of all samples together, from the hashes of single samples or of shards."""
    return sum(hashes) % 2**256


def hash_samples(batch: Batch, labels: Labels | None) -> tuple[list[int], np.ndarray]:
    """The hash of each sample of a batch, and a key by which its inputs are found again.

    Returns:
        SHA-256 of each sample with its labels; and the keys, uint64 of shape (samples,). Samples
        with the same inputs have the same key, whatever their labels are, as long as these have the
        same names, dtypes and shapes. Among a million different samples, the chance that any two
        share a key is 3e-8.
    """
    arrays = {f"input {name}": array for name, array in batch.items()}
    if isinstance(labels, Mapping):
        arrays |= {f"labels {name}": array for name, array in labels.items()}
    elif labels is not None:
        arrays["labels"] = labels
    named = sorted(arrays.items())  # inputs come before labels
    # With names, dtypes and shapes in front, the values that follow can be read in one way only.
    layout = repr([(name, _layout(array), array.shape[1:]) for name, array in named]).encode()
    rows = count_batch(arrays, "data")
    columns = [
        _rows_as_bytes(array if array.ndim else np.broadcast_to(array, rows)) for _, array in named
    ]
    hashes, keys = [], []
    for row in zip(*columns, strict=True):
        digest = hashlib.sha256(layout)
        for content in row[: len(batch)]:
            digest.update(content)
        keys.append(digest.digest()[:_KEY_BYTES])
        for content in row[len(batch) :]:
            digest.update(content)
        hashes.append(int.from_bytes(digest.digest()))
    return hashes, np.frombuffer(b"".join(keys), np.uint64)


def _layout(array: np.ndarray) -> str:
    return "text" if array.dtype.kind in "OSU" else str(array.dtype)


def _rows_as_bytes(array: np.ndarray) -> Iterator[bytes | np.ndarray]:
    if array.dtype.kind in "OSU":
        for row in texts(array):
            yield repr(np.asarray(row).ravel().tolist()).encode()
    else:
        yield from (np.ascontiguousarray(row).view(np.uint8) for row in array)
