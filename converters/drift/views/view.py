"""Views of an output: what it loses, for each use that somebody may make of it.

A view is the output less its mean over something. Its statistic is the error of the view over the
view's own variation, root mean squares both. The loss of what varies is never excused by rounding:
where FP16 cannot hold what varies beside an offset, that is the finding. What is excused is noise:
variation that float32 itself hardly holds, and columns of a vector that are off by no more than
their neighbours. `benchmarks/verdict_pairs.py` converts 91 small models in two ways: the sound ones
lose at most 0.039 of any view.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfmp.converters.drift import less_mean, tail_of
from tfmp.converters.drift.views.tables import FEW_COLUMNS, Table, as_signal, by_place

# Names of the views, which are those of their limits in the budget.
BETWEEN_SAMPLES = "between_samples"
BETWEEN_COLUMNS = "between_columns"
BETWEEN_PLACES = "between_places"
BETWEEN_OUTPUTS = "between_outputs"
WRONG_SAMPLES = "wrong_samples"
NEAR_END = "near_end"

# The unit that half of the columns are better than.
HALF = "half of the columns"

# The unit that is a sample's own places, where rounding takes what they vary by.
FLAT = "flat samples"

# What varies by less of its size is float32's own rounding: eight of its spacings, of which the
# rounding of a result takes a thirtieth.
CONSTANT = 2.0**-20

# Half of FP16's smallest number: a place that is off by less is faint beside others of its column.
_FAINT = 2.0**-25

# Fewer samples or places have no variation to speak of.
_FEWEST = 10

# A sample is wrong where it is off by more than this share of what its column varies by, by more
# than a few times what the others are, and by more than its own rounding.
WRONG, _ROUNDINGS = 0.3, 2.0

# Errors of columns up to so many times the median are alike.
_NOISE = 2.0

# Numbers are near an end where all but one in a thousand are this near to it: then no decision
# reads them, and their distance from the end is what they say.
NEAR, _ALL = 0.01, 0.999


@dataclass(frozen=True)
class View:
    """What one unit of an output loses in one view.

    Attributes:
        view: the view, which is the name of its limit.
        unit: the column, place or pair in words; "" for the output as a whole.
        error: root mean square of the error in this view, in the output's unit.
        variation: root mean square of what the reference varies by in it.
        rounding: what rounding the output itself to FP16 would give on average.
        size: root mean square of the numbers themselves.
        samples: distinct samples that were looked at.
        wrong: samples that are lost in this view; None for a view of all samples together.
        units: number of units that were looked at.
    """

    view: str
    unit: str
    error: float
    variation: float
    rounding: float
    size: float
    samples: int
    wrong: int | None = None
    units: int = 1

    @property
    def loss(self) -> float:
        """The error as a share of the variation, or the share of samples that are lost."""
        if self.wrong is not None:
            return self.wrong / max(1, self.samples)
        return self.error / self.variation if self.variation else 0.0

    @property
    def is_rounding(self) -> bool:
        """Whether the error is no larger than the rounding of the output itself would make it."""
        return self.error <= _ROUNDINGS * self.rounding


@dataclass(frozen=True)
class _Sums:
    """Mean squares by unit.

    Attributes:
        error: of the error in the view.
        variation: of the reference in the view.
        size: of the reference itself.
        rounding: of the rounding of the reference.
    """

    error: np.ndarray
    variation: np.ndarray
    size: np.ndarray
    rounding: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """Error over variation, 0 where nothing varies."""
        varies = self.variation > CONSTANT**2 * self.size
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(varies, np.sqrt(self.error / self.variation), 0.0)

    def view(self, name: str, unit: str, at: int, samples: int) -> View:
        """The view of one unit."""
        numbers = self.error, self.variation, self.rounding, self.size
        error, variation, rounding, size = (float(np.sqrt(each[at])) for each in numbers)
        units = len(self.error)
        return View(name, unit, error, variation, rounding, size, samples, units=units)


def _summed(
    tables: Sequence[Table],
    columns: np.ndarray,
    values: Callable[[Table], np.ndarray],
    power: int = 1,
) -> np.ndarray:
    """The sums of powers of some values of the tables by column."""
    sums = np.zeros(len(columns))
    for table in tables:
        added = (values(table) ** power).sum(axis=(0, 1))
        np.add.at(sums, np.searchsorted(columns, table.columns), added)
    return sums


def _columns_of(tables: Sequence[Table]) -> np.ndarray:
    return np.unique(np.concatenate([table.columns for table in tables]))


def _by_column(tables: Sequence[Table], centred: bool = True) -> tuple[np.ndarray, _Sums]:
    """The columns that were seen, and their mean squares.

    Args:
        tables: the values.
        centred: whether a column varies about the mean of all samples, and not about 0.
    """
    columns = _columns_of(tables)
    count = np.maximum(_summed(tables, columns, lambda table: table.known), 1)
    parts: tuple[Callable[[Table], np.ndarray], ...] = (
        lambda table: table.error,
        _deviations(tables) if centred else (lambda table: table.reference),
        lambda table: table.size,
        lambda table: table.step,
    )
    sums = (_summed(tables, columns, part, 2) for part in parts)
    return columns, _Sums(*(each / count for each in sums))


def views_of(tables: Sequence[Table], own: bool = False) -> list[View]:
    """What an output loses in each view: the worst unit of each.

    Args:
        tables: its values.
        own: whether each column is a number of its own, and none holds the others' noise.
    """
    samples = sum(len(table.reference) for table in tables)
    if samples < _FEWEST:
        return []
    found = [*_between_samples(tables, samples, own), *_between_columns(tables, samples)]
    found += _between_places(tables, samples)
    found += _wrong_samples(tables, samples, own)
    signals = [as_signal(table) for table in tables]
    if all(table.reference.shape[1] >= _FEWEST for table in signals):
        within = [_within(table) for table in signals]
        found += [*_wrong_samples(within, samples, own), *_flat_samples(within, samples)]
    return found


def without_ends(tables: Sequence[Table]) -> Sequence[Table]:
    """Shares in maps without the errors of those near 1, as long as these are not all.

    They lose their distance from 1, which is read where all are near: see `near_end`.
    """
    sure = [table.reference >= 1 - NEAR for table in tables]
    shares = all(
        table.reference.shape[1] > 1 and table.reference.min() >= 0 and table.reference.max() <= 1
        for table in tables
    )
    if not shares or all(each.mean() >= _ALL for each in sure):
        return tables
    pairs = zip(tables, sure, strict=True)
    return [replace(table, error=np.where(at, 0.0, table.error)) for table, at in pairs]


def place_view(tables: Sequence[Table]) -> View | None:
    """What the worst place of an output of several axes loses between samples."""
    places = [
        replace(table, error=np.where(np.abs(table.error) > _FAINT, table.error, 0.0))
        for table in by_place(tables)
    ]
    samples = sum(len(table.reference) for table in places)
    found = _between_samples(places, samples, own=False) if samples >= _FEWEST else ()
    return next((view for view in found if view.unit), None)


def _noise(sums: "_Sums", own: bool) -> np.ndarray:
    """Flags of columns of a vector whose error is that of most others, and not their own rounding.

    Args:
        sums: of all columns.
        own: whether each is a number of its own.
    """
    if own or len(sums.error) < FEW_COLUMNS:
        return np.zeros(len(sums.error), bool)
    others = sums.error <= _NOISE**2 * np.median(sums.error)
    return np.asarray(others & (sums.error > _ROUNDINGS**2 * sums.rounding))


def _deviations(tables: Sequence[Table]) -> Callable[[Table], np.ndarray]:
    """What each value differs by from the mean of all samples at its place.

    Where samples have shapes of their own, from the mean of its column in all of them.
    """
    if len(tables) == 1:
        return lambda table: less_mean(table.reference, table.known, 0)
    columns = _columns_of(tables)
    count = np.maximum(_summed(tables, columns, lambda table: table.known), 1)
    means = _summed(tables, columns, lambda table: table.reference) / count

    def centred(table: Table) -> np.ndarray:
        mean = means[np.searchsorted(columns, table.columns)]
        return np.where(table.known, table.reference - mean, 0.0)

    return centred


def _between_samples(tables: Sequence[Table], samples: int, own: bool) -> Iterator[View]:
    """Samples compared with one another: all columns together, and the worst one."""
    columns, sums = _by_column(tables)
    pooled = _Sums(*(np.array([each.mean()]) for each in vars(sums).values()))
    if pooled.loss[0]:
        yield pooled.view(BETWEEN_SAMPLES, "", 0, samples)
    if len(columns) > 1:
        loss = np.where(_noise(sums, own), 0.0, sums.loss)
        worst = int(loss.argmax())
        if loss[worst]:
            yield sums.view(BETWEEN_SAMPLES, _named(tables, columns, worst), worst, samples)
    if len(columns) >= FEW_COLUMNS:  # beside a column that is larger than all others
        middle = int(np.argsort(sums.loss)[len(columns) // 2])
        if sums.loss[middle] > pooled.loss[0]:
            yield sums.view(BETWEEN_SAMPLES, HALF, middle, samples)


def _named(tables: Sequence[Table], columns: np.ndarray, at: int) -> str:
    width = max(table.shape[-1] for table in tables)
    return f"{tables[0].word} {columns[at]} of {width:,}"


def _between_columns(tables: Sequence[Table], samples: int) -> Iterator[View]:
    """Each two columns compared with one another, of few, in rows of lists: corners have widths."""
    counts = {len(table.columns) for table in tables}
    lists = all(math.prod(table.shape[:-2]) == 1 for table in tables)
    if len(counts) > 1 or max(counts) > FEW_COLUMNS or not lists:
        return
    found = []
    for gap in range(1, max(counts)):
        columns, sums = _by_column([_stepped(table, -1, gap) for table in tables])
        worst = int(sums.loss.argmax())
        if sums.loss[worst]:
            unit = f"columns {columns[worst]} and {columns[worst] + gap}"
            found.append(sums.view(BETWEEN_COLUMNS, unit, worst, samples))
    if found:
        yield max(found, key=lambda view: view.loss)


def _stepped(table: Table, axis: int, gap: int = 1) -> Table:
    """Differences along an axis of a sample, counted from the last, of what is so far apart."""
    last = axis == -1
    numbers = table.places if last else table.rows
    stride = 1 if last else math.prod(table.shape[axis + 1 : -1])
    after = np.searchsorted(numbers, numbers + gap * stride) % len(numbers)
    inside = numbers // stride % table.shape[axis] < table.shape[axis] - gap
    here = np.flatnonzero(inside & (numbers[after] == numbers + gap * stride))
    sides = table.reference, table.error, table.known
    first, then = (
        [each.take(at, axis=2 if last else 1) for each in sides] for at in (here, after[here])
    )
    known = first[2] & then[2]
    reference, error = then[0] - first[0], then[1] - first[1]
    larger = np.maximum(np.abs(first[0]), np.abs(then[0]))
    if not known.all():
        reference, error, larger = (each * known for each in (reference, error, larger))
    found = replace(table, reference=reference, error=error, known=known, terms=larger)
    if last:
        return replace(found, columns=table.columns[here])
    return replace(found, rows=table.rows[here])


def _between_places(tables: Sequence[Table], samples: int) -> Iterator[View]:
    """Neighbouring places of a sample compared with one another, by column: the worst axis."""
    found = []
    for axis in range(-min(len(table.shape) for table in tables), 0):
        if axis == -1 and max(len(table.columns) for table in tables) <= FEW_COLUMNS:
            continue
        stepped = [_stepped(table, axis) for table in tables]
        if axis == -1:  # of many columns, one signal
            stepped = [replace(each, columns=np.zeros_like(each.columns)) for each in stepped]
        columns, sums = _by_column(stepped, centred=False)
        worst = int(sums.loss.argmax())
        if sums.loss[worst]:
            unit = f"column {columns[worst]}" if len(columns) > 1 else ""
            found.append(sums.view(BETWEEN_PLACES, unit, worst, samples))
    if found:
        yield max(found, key=lambda view: view.loss)


def _within(table: Table) -> Table:
    """Samples less their mean over their places."""
    reference, error = (less_mean(each, table.known, 1) for each in (table.reference, table.error))
    word = f"places of {table.word}"
    return replace(table, reference=reference, error=error, word=word, terms=table.size)


def _wrong_samples(tables: Sequence[Table], samples: int, own: bool) -> Iterator[View]:
    """Samples of which a column is wrong, while that of the others is right."""
    columns, sums = _by_column(tables, centred=tables[0].terms is None)
    varies = np.where(sums.variation > CONSTANT**2 * sums.size, sums.variation, np.inf)
    varies = np.where(_noise(sums, own), np.inf, varies)
    lost = np.zeros(len(columns), int)
    for table in tables:
        at = np.searchsorted(columns, table.columns)
        np.add.at(lost, at, np.count_nonzero(_wrong(table, np.sqrt(varies[at])), axis=0))
    worst = int(lost.argmax())
    if lost[worst]:
        numbers = sums.view(WRONG_SAMPLES, _named(tables, columns, worst), worst, samples)
        yield replace(numbers, wrong=int(lost[worst]))


def _flat_samples(tables: Sequence[Table], samples: int) -> Iterator[View]:
    """Samples whose places vary by so little that the rounding of their numbers takes it."""
    columns, sums = _by_column(tables, centred=False)
    lost = np.zeros(len(columns), int)
    for table in tables:
        error, varies, step, size = (
            np.square(each).sum(axis=1)
            for each in (table.error, table.reference, table.step, table.size)
        )
        flat = (error > WRONG**2 * varies) & (varies > CONSTANT**2 * size)
        flat &= (error <= _ROUNDINGS**2 * step) & (step < CONSTANT * size)  # no subnormal numbers
        np.add.at(lost, np.searchsorted(columns, table.columns), np.count_nonzero(flat, axis=0))
    worst = int(lost.argmax())
    if lost[worst]:
        yield replace(sums.view(WRONG_SAMPLES, FLAT, worst, samples), wrong=int(lost[worst]))


def _wrong(table: Table, varies: np.ndarray) -> np.ndarray:
    """Flags of (samples, columns) that are off by too much of what varies, and unlike others."""
    count = np.maximum(np.count_nonzero(table.known, axis=1), 1)
    size = np.sqrt(np.square(table.error).sum(axis=1) / count)
    rounding = np.sqrt(np.square(table.step).sum(axis=1) / count)
    least = np.maximum(tail_of(size), _ROUNDINGS * rounding)
    return np.asarray(size > np.maximum(WRONG * varies, least))


def near_end(tables: Sequence[Table], each: bool = False) -> View | None:
    """Numbers that are all near 0 or near 1, by their distance from there; None for others.

    Args:
        tables: the values.
        each: whether few columns are numbers of their own, of which some may be near an end.
    """
    found: list[View] = []
    if not tables:
        return None
    few = each and all(
        table.reference.shape[1] == 1 and len(table.columns) <= FEW_COLUMNS for table in tables
    )
    for column in _columns_of(tables).tolist() if few else [None]:
        chosen = [
            (table, table.known & ((table.columns == column) | (column is None)))
            for table in tables
        ]
        values = np.concatenate([table.reference[known] for table, known in chosen])
        if not values.size or values.min() < 0 or values.max() > 1:
            continue
        for end in (0.0, 1.0):
            if np.mean(np.abs(values - end) <= NEAR) >= _ALL:
                found.append(_from_end(chosen, end, values))
    return max(found, key=lambda view: view.wrong or 0, default=None)


def _from_end(chosen: Sequence[tuple[Table, np.ndarray]], end: float, values: np.ndarray) -> View:
    """The view of values, of tables where flags are set, by their distance from an end."""
    lost = 0
    for table, known in chosen:
        away = np.abs(table.reference - end)
        off = known & (np.abs(table.error) > WRONG * away) & (away > CONSTANT * end)
        lost += int(np.count_nonzero(off.any(axis=(1, 2))))
    spread = float(np.sqrt(np.mean(np.square(values - end))))
    samples = sum(len(known) for _, known in chosen)
    return View(NEAR_END, f"{end:g}", 0.0, spread, 0.0, 0.0, samples, lost)
