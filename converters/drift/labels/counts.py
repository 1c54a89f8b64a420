"""Counts of right and wrong answers by class and group of samples, which merge exactly."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tfmp.converters.drift import UNREADABLE, packed, unpacked, unreadable
from tfmp.shared.report_files import JsonObject

# Samples fall into groups by their keys, whatever batch or shard they came in; leaving out one
# group at a time shows how much a score depends on the choice of the samples.
GROUPS = 64

# What is counted for each class and group: values that have the class in the labels, in the
# answers of each model, and in both (the answers that are right).
TRUE, REFERENCE, CANDIDATE, REFERENCE_RIGHT, CANDIDATE_RIGHT = range(5)
_KINDS = 5

# Counts beyond it are dropped altogether: about 4000 classes. The report stays below some MB.
MOST_ENTRIES = 2**20

_MOST_PIECES = 64

# Places below it are counted in an array of that size, which is faster than sorting them.
_DENSE = 2**20

_NUMBER = np.dtype("<i8")

# Places in ascending order, and the count at each.
_Piece = tuple[np.ndarray, np.ndarray]


class Counts:
    """A sparse table of counts by class, group and kind; empty without arguments.

    Beyond `MOST_ENTRIES` entries nothing is kept, in whatever order the samples came.
    """

    def __init__(self, pieces: Sequence[_Piece] = (), full: bool = False) -> None:
        """Holds pieces; they are added up when somebody looks."""
        self._pieces = tuple(pieces)
        self._full = full

    @classmethod
    def of(cls, *parts: tuple[np.ndarray, np.ndarray]) -> "Counts":
        """The counts of some answers.

        Args:
            parts: for each kind of count the classes of its values, and the groups of the samples
                that these belong to, both of shape (values,).
        """
        pieces = [
            _counted((classes.astype(np.int64) * GROUPS + groups) * _KINDS + kind)
            for kind, (classes, groups) in enumerate(parts)
        ]
        return cls([_added(pieces)])

    def merged(self, other: "Counts") -> "Counts":
        """The counts of both."""
        if self._full or other._full:
            return Counts(full=True)
        pieces = (*self._pieces, *other._pieces)
        if len(pieces) <= _MOST_PIECES:
            return Counts(pieces)
        added = _added(pieces)
        return Counts([added], len(added[0]) > MOST_ENTRIES)

    def by_class(self) -> tuple[np.ndarray, np.ndarray]:
        """The counts as a dense array.

        Returns:
            The classes that occur, of shape (classes,), and counts of shape (classes, groups,
            kinds), int64.
        """
        places, counts = self._table
        classes, rows = np.unique(places // (GROUPS * _KINDS), return_inverse=True)
        dense = np.zeros((len(classes), GROUPS, _KINDS), np.int64)
        dense[rows, places // _KINDS % GROUPS, places % _KINDS] = counts
        return classes, dense

    def __len__(self) -> int:
        return len(self._table[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"Counts({self.to_json()})"

    def __hash__(self) -> int:
        return hash(len(self))

    def __reduce__(self) -> tuple[object, ...]:
        return Counts, ((self._table,) if len(self) else (), self._is_full)

    @property
    def _is_full(self) -> bool:
        return self._full or len(self._summed[0]) > MOST_ENTRIES

    @cached_property
    def _summed(self) -> _Piece:
        return _added(self._pieces) if self._pieces else _added([_counted(np.empty(0, np.int64))])

    @property
    def _table(self) -> _Piece:
        return _counted(np.empty(0, np.int64)) if self._is_full else self._summed

    def to_json(self) -> JsonObject:
        """The entries as compressed little-endian bytes, in base 64."""
        places, counts = self._table
        return {
            "entries": len(places),
            "full": self._is_full,
            # Distances between places are small numbers, which compress well.
            "places": packed(np.diff(places, prepend=0).astype(_NUMBER)),
            "counts": packed(counts.astype(_NUMBER)),
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "Counts":
        """Reads what `to_json` gave.

        Raises:
            InputError: the document was cut or changed.
        """
        try:
            entries = int(document["entries"])
            if not 0 <= entries <= MOST_ENTRIES:
                raise ValueError
            places = np.cumsum(unpacked(document["places"], _NUMBER, entries))
            counts = unpacked(document["counts"], _NUMBER, entries).astype(np.int64)
            full = bool(document["full"])
        except UNREADABLE as error:
            raise unreadable("a table of classes") from error
        return cls([(places, counts)] if entries else (), full)


def _counted(places: np.ndarray) -> _Piece:
    if len(places) > 0 and places.max() < _DENSE:
        counted = np.bincount(places)
        found = np.flatnonzero(counted)
        return found.astype(np.int64), counted[found].astype(np.int64)
    found, counts = np.unique(places, return_counts=True)
    return found.astype(np.int64), counts.astype(np.int64)


def _added(pieces: Sequence[_Piece]) -> _Piece:
    places = np.concatenate([piece[0] for piece in pieces])
    counts = np.concatenate([piece[1] for piece in pieces])
    order = np.argsort(places, kind="stable")
    places, counts = places[order], counts[order]
    if not len(places):
        return places, counts
    first = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    return places[first], np.add.reduceat(counts, first)
