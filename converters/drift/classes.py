"""Decisions by class: how many of each the candidate loses, however rare the class is.

A class is a place on the class axis, a label, or a value of integers and texts. The samples count,
and not their decisions: pixels of one photograph are not independent, and a class that is small in
one of them is as lost there as one that is large.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tfmp.converters.drift.sketch import Written, packed, unpacked
from tfmp.shared.report_files import JsonObject

# Sums over samples, for one class: the samples that hold it, its decisions in them, and the sum of
# the shares of these that changed, in whole millionths, which merge exactly.
SUMS = ("samples", "decisions", "changed")
MILLION = 1_000_000

# Values that are numbers rather than classes soon exceed it.
MOST_CLASSES = 4096

# Largest table of samples times classes that is counted at a time.
_CELLS = 2**22

_COUNT = np.dtype("<i8")


class ClassTable(Written):
    """Some counts for each class; they merge exactly.

    Of decisions these are `SUMS` for those of the reference (changed: lost), then for those of the
    candidate (changed: gained).
    """

    what = "a table of classes"

    def __init__(self, rows: Mapping[str, np.ndarray] | None = None, overfull: bool = False):
        """Takes int64 counts by class; of more than `MOST_CLASSES` none are kept."""
        self.overfull = overfull or len(rows or {}) > MOST_CLASSES
        self._rows = {} if self.overfull else rows or {}

    @property
    def rows(self) -> Mapping[str, np.ndarray]:
        """Counts by class, in the order of the classes' names; {} if there were too many."""
        return dict(sorted(self._rows.items(), key=_place))

    def merged(self, other: "ClassTable") -> "ClassTable":
        """The counts of both."""
        rows = dict(self._rows)
        for name, counts in other._rows.items():
            rows[name] = rows[name] + counts if name in rows else counts
        return ClassTable(rows, self.overfull or other.overfull)

    @classmethod
    def of(cls, counts: np.ndarray, names: Sequence[object] | int) -> "ClassTable":
        """The counts of each class that was seen.

        Args:
            counts: of shape (classes, columns).
            names: the classes, or how many there are.
        """
        seen = np.flatnonzero(counts.any(axis=1)).tolist()
        if len(seen) > MOST_CLASSES:
            return cls(overfull=True)
        named = seen if isinstance(names, int) else [names[place] for place in seen]
        return cls({str(name): counts[place] for name, place in zip(named, seen, strict=True)})

    def to_json(self) -> JsonObject:
        """The classes, and their counts as compressed bytes."""
        rows = self.rows
        return {
            "overfull": self.overfull,
            "classes": list(rows),
            "columns": len(next(iter(rows.values()), ())),
            "counts": packed(np.array(list(rows.values()), _COUNT).T),
        }

    @classmethod
    def read(cls, document: JsonObject) -> "ClassTable":
        """See `Written`."""
        names = [str(name) for name in document["classes"]]
        columns = int(document["columns"])
        if len(names) > MOST_CLASSES or not 0 <= columns <= MOST_CLASSES:
            raise ValueError(f"{len(names)} classes of {columns} counts")
        counts = unpacked(document["counts"], _COUNT, columns * len(names))
        rows = counts.reshape(columns, len(names)).T
        return cls(dict(zip(names, rows, strict=True)), bool(document["overfull"]))


def _place(row: tuple[str, np.ndarray]) -> tuple[int, str]:
    """Numbers by size, then texts."""
    name = row[0]
    return (int(name), "") if name.removeprefix("-").isdecimal() else (2**63, name)


def count_classes(
    reference: np.ndarray,
    candidate: np.ndarray,
    changed: np.ndarray,
    names: Sequence[object] | int,
) -> ClassTable:
    """Counts one batch.

    Args:
        reference: class of each decision of the reference as a place in `names`, of shape
            (samples, decisions); -1 for one that is of no class.
        candidate: those of the candidate.
        changed: whether a decision changed, as far as that counts.
        names: the classes, or how many there are.
    """
    size = names if isinstance(names, int) else len(names)
    counts = np.zeros((2, len(SUMS), size), np.int64)
    step = max(1, _CELLS // max(1, size))
    for start in range(0, len(reference), step):
        part = slice(start, start + step)
        for sums, decided in zip(counts, (reference[part], candidate[part]), strict=True):
            known, rows = decided >= 0, len(decided)
            place = decided + np.arange(rows)[:, None] * size
            held, lost = (
                np.bincount(place[which], minlength=rows * size).reshape(rows, size)
                for which in (known, known & changed[part])
            )
            sums += _summed(held, lost)
    return ClassTable.of(counts.reshape(2 * len(SUMS), size).T, names)


def count_labels(yes: np.ndarray, said: np.ndarray, changed: np.ndarray) -> ClassTable:
    """Counts one batch of decisions for or against each of some labels; a yes is of its label.

    Args:
        yes: the reference's decisions, of shape (samples, decisions, labels).
        said: those of the candidate.
        changed: whether a decision changed, as far as that counts.
    """
    counts = [
        _summed(*(np.count_nonzero(each, axis=1) for each in (decided, decided & changed)))
        for decided in (yes, said)
    ]
    return ClassTable.of(np.concatenate(counts).T, yes.shape[2])


def _summed(held: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """The sums over samples of decisions by sample and class."""
    sums = np.stack([np.count_nonzero(held, axis=0), held.sum(axis=0), np.zeros(held.shape[1])])
    samples, classes = np.nonzero(lost)
    shares = np.rint(MILLION * lost[samples, classes] / held[samples, classes])
    np.add.at(sums[2], classes, shares)
    return sums.astype(np.int64)
