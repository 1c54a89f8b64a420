"""Predictions and labels that are kept for a metric of the user's own, sample by sample."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tfmp.converters.drift import Written
from tfmp.converters.drift.labels.custom import CustomMetric
from tfmp.converters.shared.errors import InputError
from tfmp.shared.report_files import JsonObject

MEBIBYTE = 2**20

# Of both models and the labels; the reference's are shared by the candidates of a run.
MOST_BYTES_IN_MEMORY = 1024 * MEBIBYTE

# An array, or arrays by name; samples first.
Arrays = np.ndarray | Mapping[str, np.ndarray]


# Whose arrays a table holds.
LABELS, REFERENCE, CANDIDATE = "labels", "reference", "candidate"


@dataclass(frozen=True)
class Table:
    """Some samples.

    Attributes:
        keys: uint64, one for each sample.
        arrays: labels and outputs by owner and name, samples first; "" for the only one.
    """

    keys: np.ndarray
    arrays: Mapping[tuple[str, str], np.ndarray]

    def at(self, rows: np.ndarray) -> "Table":
        """The samples at these places."""
        return Table(self.keys[rows], {name: array[rows] for name, array in self.arrays.items()})

    def of(self, owner: str) -> Arrays:
        """The labels or outputs as they were passed: one array, or arrays by name."""
        found = {name: array for (whose, name), array in self.arrays.items() if whose == owner}
        return found.get("", found)


class Kept(Written):
    """The samples of all batches; empty without arguments. A report holds only their size.

    Attributes:
        metric: the metric that they are kept for; None while there is none.
        left_out: size in bytes of predictions that were left out of a report; 0 if all are here.
    """

    what = "a table of predictions"

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
        return sum(_size(array) for piece in self._pieces for array in piece.arrays.values())

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
        names = self._pieces[0].arrays
        joined = Table(
            keys, {name: _stacked([piece.arrays[name] for piece in self._pieces]) for name in names}
        )
        # Copies of a sample may differ in labels, or in the last digit.
        places = sorted(range(len(keys)), key=lambda row: (int(keys[row]), _digest(joined, row)))
        return joined.at(np.array(places))

    def to_json(self) -> JsonObject:
        """The metric, and the size of the samples, which are left out."""
        name = self.metric.name if self.metric else ""
        return {"metric": name, "left_out": self.left_out + self.nbytes}

    @classmethod
    def read(cls, document: JsonObject) -> "Kept":
        """See `Written`."""
        name = str(document["metric"])
        metric = CustomMetric(name, None, "") if name else None
        return cls(metric, (), int(document["left_out"]))


def keep(
    metric: CustomMetric, keys: np.ndarray, labels: Any, reference: Arrays, candidate: Arrays
) -> Kept:
    """One batch, kept for a metric."""
    owned = {LABELS: labels, REFERENCE: reference, CANDIDATE: candidate}
    arrays = {
        (owner, name): _plain(array)
        for owner, given in owned.items()
        for name, array in (given if isinstance(given, Mapping) else {"": given}).items()
    }
    return Kept(metric, [Table(keys, arrays)])


def _plain(array: np.ndarray) -> np.ndarray:
    """As an array of a dtype that NumPy itself knows."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _size(array: np.ndarray) -> int:
    if array.dtype.kind == "O":
        return sum(len(str(item)) for item in array.ravel())
    return array.nbytes


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
    for _, array in sorted(table.arrays.items()):
        item = np.asarray(array[row])
        text = item.dtype.kind in "OU"
        digest.update(repr(item.tolist()).encode() if text else item.tobytes())
    return digest.digest()
