"""Decisions by class: how many of each the candidate loses, however rare the class is.

A class is a place on the class axis, a label, or a value of integers and texts. The sample is the
cluster: pixels of one photograph are not independent. So besides counts there are sums of squares
and products over samples, from which `statistics.clustered_bounds` takes the variance.
"""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from tfmp.converters.drift.sketch import UNREADABLE, packed, unpacked, unreadable
from tfmp.shared.report_files import JsonObject

# Sums over samples, for one class: the samples that hold it, its decisions d in them, the changed
# ones c among these, the sums of c * c, c * d and d * d, and the samples in which all change.
SUMS = (
    "samples",
    "decisions",
    "changed",
    "changed_sq",
    "changed_decisions",
    "decisions_sq",
    "vanished",
)

# The sums for decisions of the reference (changed: lost), then for those of the candidate
# (changed: gained).
COLUMNS = 2 * len(SUMS)

# Values that are numbers rather than classes soon exceed it.
MOST_CLASSES = 4096

# Largest table of samples times classes that is counted at a time.
_CELLS = 2**22

_COUNT = np.dtype("<i8")


class ClassTable:
    """Counts by class; they merge exactly."""

    def __init__(
        self, rows: Mapping[str, np.ndarray] | None = None, dense: np.ndarray | None = None
    ) -> None:
        """Takes `COLUMNS` counts for each class; more than `MOST_CLASSES` are not kept.

        Args:
            rows: counts by class.
            dense: counts of the classes 0, 1, ... in the place of `rows`, of shape (classes,
                `COLUMNS`); those of no decision count as absent.
        """
        self._rows, self._dense = rows or {}, dense
        self.overfull = len(self._rows) > MOST_CLASSES

    @classmethod
    def full(cls) -> "ClassTable":
        """A table of too many classes, of which none is kept."""
        table = cls()
        table.overfull = True
        return table

    @classmethod
    def of_numbers(
        cls, reference: np.ndarray, candidate: np.ndarray, changed: np.ndarray
    ) -> "ClassTable":
        """Counts one batch of decisions for classes by their numbers, as `count_classes` does."""
        sides = np.stack([reference, candidate])
        names = np.unique(sides[sides >= 0])
        places = np.where(sides >= 0, np.searchsorted(names, sides), -1)
        return count_classes(places[0], places[1], changed, names.tolist())

    @property
    def rows(self) -> Mapping[str, np.ndarray]:
        """Counts by class, in the order of the classes' names; {} if there were too many."""
        return {} if self.overfull else dict(sorted(self._by_name().items(), key=_place))

    def _by_name(self) -> Mapping[str, np.ndarray]:
        return self._rows if self._dense is None else _seen(self._dense)

    def merged(self, other: "ClassTable") -> "ClassTable":
        """The counts of both."""
        if self.overfull or other.overfull:
            return ClassTable.full()
        one, two = self._dense, other._dense
        if one is not None and two is not None and one.shape == two.shape:
            return ClassTable(dense=one + two)
        if one is None and not self._rows:
            return other
        rows = dict(self._by_name())
        for name, counts in other._by_name().items():
            rows[name] = rows[name] + counts if name in rows else counts
        return ClassTable(rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassTable) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"ClassTable({len(self.rows)}, {zlib.crc32(repr(self.to_json()).encode()):08x})"

    def __hash__(self) -> int:
        return hash(tuple(self.rows))

    def to_json(self) -> JsonObject:
        """The classes, and their counts as compressed bytes."""
        rows = self.rows
        counts = np.array(list(rows.values()), _COUNT).reshape(len(rows), COLUMNS)
        return {"overfull": self.overfull, "classes": list(rows), "counts": packed(counts.T)}

    @classmethod
    def from_json(cls, document: JsonObject) -> "ClassTable":
        """Reads what `to_json` gave; raises `InputError`."""
        try:
            if document["overfull"]:
                return cls.full()
            names = [str(name) for name in document["classes"]]
            if len(names) > MOST_CLASSES:
                raise ValueError
            counts = unpacked(document["counts"], _COUNT, COLUMNS * len(names))
        except UNREADABLE as error:
            raise unreadable("a table of classes") from error
        return cls(dict(zip(names, counts.reshape(COLUMNS, len(names)).T, strict=True)))


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
    counts = np.zeros((size, COLUMNS), np.int64)
    step = max(1, _CELLS // max(1, size))
    for start in range(0, len(reference), step):
        part = slice(start, start + step)
        _count(counts, (reference[part], candidate[part]), changed[part])
    return _table(counts, names)


def count_labels(yes: np.ndarray, said: np.ndarray, changed: np.ndarray) -> ClassTable:
    """Counts one batch of decisions for or against each of some labels; a yes is of its label.

    Args:
        yes: the reference's decisions, of shape (samples, decisions, labels).
        said: those of the candidate.
        changed: whether a decision changed, as far as that counts.
    """
    held = np.stack([_by_label(decided) for decided in (yes, said)])
    lost = np.stack([_by_label(decided & changed) for decided in (yes, said)])
    return _table(_summed(held, lost), yes.shape[2])


def _seen(counts: np.ndarray, names: Sequence[object] | int = 0) -> dict[str, np.ndarray]:
    """The counts of each class that was seen."""
    seen = np.flatnonzero(counts.any(axis=1)).tolist()
    named = seen if isinstance(names, int) else [names[place] for place in seen]
    return {str(name): counts[place] for name, place in zip(named, seen, strict=True)}


def _table(counts: np.ndarray, names: Sequence[object] | int) -> ClassTable:
    if isinstance(names, int) and names <= MOST_CLASSES:
        return ClassTable(dense=counts)
    table = ClassTable(_seen(counts, names))
    return ClassTable.full() if table.overfull else table


def _count(counts: np.ndarray, sides: tuple[np.ndarray, ...], changed: np.ndarray) -> None:
    """Adds the sums of some samples: of the reference's decisions and of the candidate's."""
    size, rows = len(counts), len(changed)
    if changed.shape[1] == 1:  # one decision a sample: its square is itself
        sums = []
        for decided in sides:
            held, lost = (
                np.bincount(which[which >= 0], minlength=size)
                for which in (decided, decided[changed])
            )
            sums += [held, held, lost, lost, lost, held, lost]
        counts += np.stack(sums, axis=1)
        return
    place = np.stack(sides)
    known = place >= 0 if place.min(initial=0) < 0 else None
    place += np.arange(2 * rows).reshape(2, rows, 1) * size
    # Nearly all are of a class, and few change: selecting costs more than counting.
    every = place.ravel() if known is None else place[known]
    few = place[:, changed] if known is None else place[known & changed]
    held, lost = (
        np.bincount(which.ravel(), minlength=2 * rows * size).reshape(2, rows, size)
        for which in (every, few)
    )
    used = np.flatnonzero(held.any(axis=(0, 1)))
    counts[used] += _summed(held[:, :, used], lost[:, :, used])


def _summed(held: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Sums over samples, (classes, `COLUMNS`), of decisions by side, sample and class."""
    seen = held > 0
    sums = {"samples": seen, "decisions": held, "decisions_sq": held * held}
    if lost.any():
        sums |= {"changed": lost, "changed_sq": lost * lost, "changed_decisions": lost * held}
        sums["vanished"] = seen & (lost == held)
    found = np.zeros((2, len(SUMS), held.shape[2]), np.int64)
    for name, values in sums.items():
        found[:, SUMS.index(name)] = values.sum(axis=1)
    return found.reshape(COLUMNS, -1).T


# Rows of flags that are added as one long row: NumPy adds long rows many times faster.
_FOLDED = 256


def _by_label(flags: np.ndarray) -> np.ndarray:
    """How many are set, by sample and label; of (samples, decisions, labels)."""
    samples, decisions, labels = flags.shape
    whole = decisions // _FOLDED * _FOLDED
    found = flags[:, whole:].sum(axis=1, dtype=np.int64)
    if whole:
        rows = flags[:, :whole].view(np.uint8).reshape(samples, -1, _FOLDED * labels)
        # At most 2**32 decisions a sample.
        folded = rows.sum(axis=1, dtype=np.uint32).reshape(samples, _FOLDED, labels)
        found += folded.sum(axis=1, dtype=np.int64)
    return found
