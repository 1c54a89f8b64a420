"""Predictions and labels that are kept for a metric of the user's own, sample by sample."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tfmp.converters.drift import UNREADABLE, packed, unpacked, unreadable
from tfmp.converters.drift.labels.custom import CustomMetric
from tfmp.converters.shared.errors import InputError
from tfmp.shared.report_files import JsonObject

MEBIBYTE = 2**20

# Of both models and the labels; the reference's are shared by the candidates of a run.
MOST_BYTES_IN_MEMORY = 1024 * MEBIBYTE
MOST_BYTES_IN_REPORT = 16 * MEBIBYTE

# An array, or arrays by name; samples first.
Arrays = np.ndarray | Mapping[str, np.ndarray]

_KEY = np.dtype("<u8")


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

    @property
    def nbytes(self) -> int:
        """Size of all arrays in memory."""
        return sum(map(_size, (self.labels, self.reference, self.candidate)))

    def at(self, rows: np.ndarray) -> "Table":
        """The samples at these places."""

        def take(array: np.ndarray) -> np.ndarray:
            return array[rows]

        parts = (_each(part, take) for part in (self.labels, self.reference, self.candidate))
        return Table(self.keys[rows], *parts)


class Kept:
    """The samples of all batches; empty without arguments.

    Attributes:
        metric: the metric that they are kept for; None while there is none.
        left_out: size in bytes of predictions that a report was too small for; 0 if all are here.
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
        return sum(piece.nbytes for piece in self._pieces)

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
            InputError: they were too many for the report that they were read from.
        """
        if self.left_out:
            name = self.metric.name if self.metric else ""
            raise InputError(
                f"metric {name!r} cannot be merged: the predictions that it needs take "
                f"{self.left_out / MEBIBYTE:,.0f} MiB, and reports hold up to "
                f"{MOST_BYTES_IN_REPORT // MEBIBYTE} MiB of them. Validate all samples in one run, "
                "or let the function return an array with a number for each sample."
            )
        return _sorted(_joined(self._pieces))

    def __len__(self) -> int:
        return sum(len(piece.keys) for piece in self._pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.to_json() == other.to_json()

    def __reduce__(self) -> tuple[object, ...]:
        return Kept, (self.metric, self._pieces, self.left_out)

    def __repr__(self) -> str:
        return f"Kept({self.to_json()})"

    def __hash__(self) -> int:
        return hash(len(self))

    def to_json(self) -> JsonObject:
        """The samples, or their size if there are too many for a report."""
        name = self.metric.name if self.metric else ""
        if not len(self) or self.left_out or self.nbytes > MOST_BYTES_IN_REPORT:
            return {"metric": name, "left_out": self.left_out + self.nbytes}
        table = self.table
        return {
            "metric": name,
            "left_out": 0,
            "keys": packed(table.keys.astype(_KEY)),
            "samples": len(table.keys),
            "labels": _written(table.labels),
            "reference": _written(table.reference),
            "candidate": _written(table.candidate),
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "Kept":
        """Reads what `to_json` gave.

        Raises:
            InputError: the document was cut or changed.
        """
        try:
            name, left_out = str(document["metric"]), int(document["left_out"])
            metric = CustomMetric(name, None, "") if name else None
            if "keys" not in document:
                return cls(metric, (), left_out)
            keys = unpacked(document["keys"], _KEY, int(document["samples"]))
            parts = [_read(document[part]) for part in ("labels", "reference", "candidate")]
            return cls(metric, [Table(keys, *parts)])
        except UNREADABLE as error:
            raise unreadable("a table of predictions") from error


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


def _size(arrays: Arrays) -> int:
    parts = arrays.values() if isinstance(arrays, Mapping) else [arrays]
    return sum(
        sum(len(str(item)) for item in part.ravel()) if part.dtype.kind == "O" else part.nbytes
        for part in parts
    )


def _joined(pieces: Sequence[Table]) -> Table:
    if len(pieces) == 1:
        return pieces[0]

    def join(parts: Sequence[Arrays]) -> Arrays:
        if isinstance(parts[0], Mapping):
            names = list(parts[0])
            return {name: _stacked([part[name] for part in parts]) for name in names}
        return _stacked(parts)  # type: ignore[arg-type]

    return Table(
        np.concatenate([piece.keys for piece in pieces]),
        join([piece.labels for piece in pieces]),
        join([piece.reference for piece in pieces]),
        join([piece.candidate for piece in pieces]),
    )


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One array; where samples have different shapes, one of objects with an array for each."""
    if len({part.shape[1:] for part in parts}) == 1:
        return np.concatenate(parts)
    return _objects([row for part in parts for row in part])


def _objects(items: Sequence[Any]) -> np.ndarray:
    found = np.empty(len(items), object)
    for place, item in enumerate(items):
        found[place] = item
    return found


def _sorted(table: Table) -> Table:
    order = np.argsort(table.keys, kind="stable")
    keys = table.keys[order]
    repeated = np.zeros(len(keys), bool)
    repeated[1:] |= keys[1:] == keys[:-1]
    repeated[:-1] |= keys[1:] == keys[:-1]
    if repeated.any():  # copies of a sample may differ in labels, or in the last digit
        digests = [
            _digest(table, row) if again else b""
            for row, again in zip(order, repeated, strict=True)
        ]
        places = sorted(range(len(keys)), key=lambda place: (int(keys[place]), digests[place]))
        order = order[places]
    return table.at(order)


def _digest(table: Table, row: int) -> bytes:
    digest = hashlib.sha256()
    for part in (table.labels, table.reference, table.candidate):
        arrays = sorted(part.items()) if isinstance(part, Mapping) else [("", part)]
        for _, array in arrays:
            item = np.asarray(array[row])
            text = item.dtype.kind in "OU"
            digest.update(repr(item.tolist()).encode() if text else item.tobytes())
    return digest.digest()


def _written(arrays: Arrays) -> JsonObject:
    if isinstance(arrays, Mapping):
        return {"arrays": {name: _written(array) for name, array in arrays.items()}}
    if arrays.dtype.kind == "O":
        plain = [item if isinstance(item, str) else None for item in arrays.ravel()]
        if None not in plain:
            return {"texts": plain, "shape": list(arrays.shape)}
        return {"items": [_written(np.asarray(item)) for item in arrays]}
    if arrays.dtype.kind == "U":
        return {"texts": arrays.ravel().tolist(), "shape": list(arrays.shape), "fixed": True}
    return {"dtype": arrays.dtype.str, "shape": list(arrays.shape), "data": packed(arrays)}


def _read(document: JsonObject) -> Any:
    if "arrays" in document:
        return {name: _read(array) for name, array in document["arrays"].items()}
    if "items" in document:
        return _objects([_read(item) for item in document["items"]])
    shape = tuple(map(int, document["shape"]))
    if "texts" in document:
        return np.array(document["texts"], str if document.get("fixed") else object).reshape(shape)
    dtype = np.dtype(document["dtype"])
    if dtype.kind not in "biufc":
        raise ValueError(f"dtype {dtype}")
    return unpacked(document["data"], dtype, int(np.prod(shape, dtype=np.int64))).reshape(shape)
