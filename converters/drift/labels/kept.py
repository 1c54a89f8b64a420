"""Predictions and labels that are kept for a metric of the user's own, sample by sample."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tfmp.converters.drift import UNREADABLE, Written, unreadable
from tfmp.converters.drift.labels.custom import CustomMetric
from tfmp.converters.shared.errors import InputError
from tfmp.shared.report_files import JsonObject

MEBIBYTE = 2**20

# Of both models and the labels; the reference's are shared by the candidates of a run.
MOST_BYTES_IN_MEMORY = 1024 * MEBIBYTE

# An array, or arrays by name; samples first.
Arrays = np.ndarray | Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Table:
    """Some samples.

    Attributes:
        keys: uint64, one for each sample.
        labels: their labels, as the user passed them.
        reference: the reference's outputs: one array, or arrays by name.
        candidate: the candidate's outputs in the same form.
    """

    keys: np.ndarray
    labels: Arrays
    reference: Arrays
    candidate: Arrays

    def at(self, rows: np.ndarray) -> "Table":
        """The samples at these places."""

        def take(array: np.ndarray) -> np.ndarray:
            return array[rows]

        parts = (_each(part, take) for part in (self.labels, self.reference, self.candidate))
        return Table(self.keys[rows], *parts)


class Kept(Written):
    """The samples of all batches; empty without arguments. A report holds only their size.

    Attributes:
        metric: the metric that they are kept for; None while there is none.
        left_out: size in bytes of predictions that were left out of a report; 0 if all are here.
    """

    def __init__(
        self,
        metric: CustomMetric | None = None,
        pieces: Sequence[Table] = (),
        left_out: int = 0,
    ) -> None:
        """Holds pieces in any order."""
        self.metric = metric
        self.left_out = left_out
        self._pieces = tuple(pieces)

    def merged(self, other: "Kept") -> "Kept":
        """The samples of both."""
        return Kept(
            self.metric or other.metric,
            (*self._pieces, *other._pieces),
            self.left_out + other.left_out,
        )

    @property
    def nbytes(self) -> int:
        """Size of all arrays in memory."""
        return sum(
            _size(part)
            for piece in self._pieces
            for part in (piece.labels, piece.reference, piece.candidate)
        )

    def check_size(self, samples: int) -> None:
        """Raises `InputError` if the predictions of so many samples are too many to keep."""
        if self.nbytes > MOST_BYTES_IN_MEMORY:
            name = self.metric.name if self.metric else ""
            raise InputError(
                f"metric {name!r} needs all predictions at a time, and those of {samples:,} "
                f"samples take {self.nbytes / MEBIBYTE:,.0f} MiB; the limit is "
                f"{MOST_BYTES_IN_MEMORY // MEBIBYTE:,} MiB. Pass fewer samples, or let the "
                "function return an array with a number for each sample: then none are kept."
            )

    @cached_property
    def table(self) -> Table:
        """All samples in an order that depends on their keys and values only.

        Raises:
            InputError: they were left out of the report that this was read from.
        """
        if self.left_out:
            name = self.metric.name if self.metric else ""
            raise InputError(
                f"metric {name!r} cannot be merged: it needs all predictions at a time, and "
                "reports hold none. Validate all samples in one run, or let the function return "
                "an array with a number for each sample."
            )
        keys = np.concatenate([piece.keys for piece in self._pieces])
        joined = Table(
            keys,
            _joined([piece.labels for piece in self._pieces]),
            _joined([piece.reference for piece in self._pieces]),
            _joined([piece.candidate for piece in self._pieces]),
        )
        # Copies of a sample may differ in labels, or in the last digit.
        places = sorted(range(len(keys)), key=lambda row: (int(keys[row]), _digest(joined, row)))
        return joined.at(np.array(places))

    def __len__(self) -> int:
        return sum(len(piece.keys) for piece in self._pieces)

    def __reduce__(self) -> tuple[object, ...]:
        return Kept, (self.metric, self._pieces, self.left_out)

    def to_json(self) -> JsonObject:
        """The metric, and the size of the samples, which are left out."""
        name = self.metric.name if self.metric else ""
        return {"metric": name, "left_out": self.left_out + self.nbytes}

    @classmethod
    def from_json(cls, document: JsonObject) -> "Kept":
        """Reads what `to_json` gave.

        Raises:
            InputError: the document was cut or changed.
        """
        try:
            name = str(document["metric"])
            # Earlier reports hold predictions, which nothing needs again but merging.
            left_out = int(document["left_out"]) or int("keys" in document)
        except UNREADABLE as error:
            raise unreadable("a table of predictions") from error
        return cls(CustomMetric(name, None, "") if name else None, (), left_out)


def keep(
    metric: CustomMetric, keys: np.ndarray, labels: Any, reference: Arrays, candidate: Arrays
) -> Kept:
    """One batch, kept for a metric."""
    parts = (_each(part, _plain) for part in (labels, reference, candidate))
    return Kept(metric, [Table(keys, *parts)])


def _plain(array: np.ndarray) -> np.ndarray:
    """As an array of a dtype that NumPy itself knows."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _each(arrays: Arrays, change: Callable[[np.ndarray], np.ndarray]) -> Arrays:
    if isinstance(arrays, Mapping):
        return {name: change(array) for name, array in arrays.items()}
    return change(arrays)


def _by_name(arrays: Arrays) -> Mapping[str, np.ndarray]:
    return arrays if isinstance(arrays, Mapping) else {"": arrays}


def _size(arrays: Arrays) -> int:
    return sum(
        sum(len(str(item)) for item in part.ravel()) if part.dtype.kind == "O" else part.nbytes
        for part in _by_name(arrays).values()
    )


def _joined(parts: Sequence[Arrays]) -> Arrays:
    first, *_ = parts
    if isinstance(first, Mapping):
        return {name: _stacked([_by_name(part)[name] for part in parts]) for name in first}
    return _stacked(parts)  # type: ignore[arg-type]


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One array; where samples have different shapes, one of objects with an array for each."""
    if len({part.shape[1:] for part in parts}) == 1:
        return np.concatenate(parts)
    rows = [row for part in parts for row in part]
    found = np.empty(len(rows), object)
    for place, row in enumerate(rows):
        found[place] = row
    return found


def _digest(table: Table, row: int) -> bytes:
    digest = hashlib.sha256()
    for part in (table.labels, table.reference, table.candidate):
        for _, array in sorted(_by_name(part).items()):
            item = np.asarray(array[row])
            text = item.dtype.kind in "OU"
            digest.update(repr(item.tolist()).encode() if text else item.tobytes())
    return digest.digest()
