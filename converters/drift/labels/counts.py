"""Counts of right and wrong answers by class and group of samples, which merge exactly."""

import numpy as np

from tfmp.converters.drift import MOST_CLASSES, Written, packed, unpacked
from tfmp.shared.report_files import JsonObject

# Samples fall into groups by their keys, whatever batch or shard they came in; leaving out one
# group at a time shows how much a score depends on the choice of the samples.
GROUPS = 64

# What is counted for each class and group: values that have the class in the labels, in the
# answers of each model, and in both (the answers that are right).
TRUE, REFERENCE, CANDIDATE, REFERENCE_RIGHT, CANDIDATE_RIGHT = range(5)
_KINDS = 5

_NUMBER = np.dtype("<i8")


class Counts(Written):
    """A table of counts by class, group and kind; empty without arguments.

    With a class beyond `MOST_CLASSES` nothing is kept, in whatever order the samples came.
    """

    what = "a table of classes"

    def __init__(self, table: np.ndarray | None = None, full: bool = False) -> None:
        """Holds int64 counts of shape (classes, groups, kinds)."""
        empty = np.zeros((0, GROUPS, _KINDS), np.int64)
        self.table = empty if table is None or full else table
        self._full = full

    @classmethod
    def of(cls, *parts: tuple[np.ndarray, np.ndarray]) -> "Counts":
        """The counts of some answers.

        Args:
            parts: for each kind of count the classes of its values, and the groups of the samples
                that these belong to, both of shape (values,).
        """
        classes = 1 + max(int(each.max(initial=-1)) for each, _ in parts)
        if classes > MOST_CLASSES or min(each.min(initial=0) for each, _ in parts) < 0:
            return cls(full=True)
        counts = [
            np.bincount(each.astype(np.int64) * GROUPS + groups, minlength=classes * GROUPS)
            for each, groups in parts
        ]
        return cls(np.stack(counts, axis=1).reshape(classes, GROUPS, _KINDS))

    def merged(self, other: "Counts") -> "Counts":
        """The counts of both."""
        long, short = sorted((self.table, other.table), key=len, reverse=True)
        table = long.copy()
        table[: len(short)] += short
        return Counts(table, self._full or other._full)

    def to_json(self) -> JsonObject:
        """The places of the counts, and these, as compressed little-endian bytes in base 64."""
        places = np.flatnonzero(self.table)
        return {
            "entries": len(places),
            "full": self._full,
            # Distances between places are small numbers, which compress well.
            "places": packed(np.diff(places, prepend=0).astype(_NUMBER)),
            "counts": packed(self.table.ravel()[places].astype(_NUMBER)),
        }

    @classmethod
    def read(cls, document: JsonObject) -> "Counts":
        """See `Written`."""
        entries = int(document["entries"])
        if not 0 <= entries <= MOST_CLASSES * GROUPS * _KINDS:
            raise ValueError(f"{entries} entries")
        places = np.cumsum(unpacked(document["places"], _NUMBER, entries))
        classes = int(places[-1]) // (GROUPS * _KINDS) + 1 if entries else 0
        if document["full"] or not 0 <= classes <= MOST_CLASSES:
            return cls(full=True)
        table = np.zeros((classes, GROUPS, _KINDS), np.int64)
        table.ravel()[places] = unpacked(document["counts"], _NUMBER, entries)
        return cls(table)
