"""Checks of scores that lie in groups: the distance of the groups hides what tells members apart.

Of prices near 1000 and others near 5, those near 1000 may all become the same number: neither the
size of the output nor how it varies shows that.
"""

from collections.abc import Iterator

import numpy as np

from tfmp.converters.drift import LEVELS, DriftBudget, OutputDrift, level_ends
from tfmp.converters.drift.verdict import (
    CONSTANT,
    DECIDING,
    FEW_ROUNDINGS,
    HALF_SPACING,
    MORE,
    VARIATION,
    Check,
    Verdict,
    is_guess,
    number_beside,
)
from tfmp.shared.numerics import ulp

# So many samples are a group.
_FEWEST = 30

# The worst of its samples are left aside: a single broken one is no group that is lost.
_MOST = 0.95

# Gaps are looked at by size, each half as large as the one before.
_HALVINGS = 30

# A group that deviates by so many spacings of FP16 is more than noise of the last digits.
_SAYS = 4.0


def group_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The check of one output that is one number for each sample, or a few; none without groups.

    Rows hold sizes, so a group is of one size, whatever its signs.
    """
    rows, totals, limit = output.totals.rows, output.totals, budget.slice_rel_l2
    if limit is None or not len(rows) or not totals.slices.count:
        return []
    if totals.values != totals.samples:
        return _of_columns(output, limit, budget.flip_rate or 0.0)
    decides = totals.unit and output.task.kind in DECIDING
    if decides and not is_guess(output):
        return []
    order = np.argsort(rows.values[:, 1], kind="stable")
    errors, values = rows.values[order, 0], rows.values[order, 1]
    if not (np.isfinite(errors).all() and np.isfinite(values).all()):
        return []
    least = max(_FEWEST, int((budget.flip_rate or 0.0) * len(values)))
    found = []
    for first, end in _groups(values, least):
        most = np.sort(errors[first:end])[: int(np.ceil(_MOST * (end - first)))]
        error, deviation = _rms(most), float(values[first:end].std())
        step = float(ulp(np.array([_rms(values[first:end])]))[0])
        larger = np.abs(values) > np.abs(values[first:end]).max()
        usual = max(_rms(errors[larger]), HALF_SPACING * _rms(values[larger]))
        lost = error > max(VARIATION * limit * deviation, FEW_ROUNDINGS * step, MORE * usual)
        if lost and deviation > 0:
            certain = deviation >= _SAYS * step and not decides
            found.append((certain, error / deviation, first, end))
    if not found:
        return []
    certain, ratio, first, end = max(found)
    text = (
        f"output {output.name!r}: {end - first:,} of {len(values):,} samples have a size of "
        f"{values[first]:.4g} to {values[end - 1]:.4g}, far from all others, and what tells them "
        f"apart is off by {number_beside(ratio, limit * VARIATION)} of its own size, budget "
        f"{limit * VARIATION:.10g}"
    )
    verdict = Verdict.FAIL if certain else Verdict.INCONCLUSIVE
    measured = ratio / VARIATION
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)]


# Columns that are few enough for groups to have a meaning of their own.
_FEW = 16

# A group deviates by less than this share of its size: others are as far away at least. It is lost
# beside other columns if the error is more than this share of its deviation; less may be noise.
_NARROW, _LOST = 0.1, 0.5


def _of_columns(output: OutputDrift, limit: float, share: float) -> list[Check]:
    """Whether a column of few is wrong on a group of samples, known by their size."""
    places, totals = output.totals.places, output.totals
    counts = np.array(places.level_counts, float).reshape(-1, LEVELS)
    few = 1 < len(counts) <= _FEW and totals.values == totals.samples * len(counts)
    decides = totals.unit and output.task.kind in DECIDING
    if not few or decides or places.levels.count != counts.size:
        return []
    levels = places.levels
    sums = np.stack([counts.ravel(), levels.error_sq, levels.reference_sq, levels.reference_sum])
    sums = sums.reshape(4, *counts.shape)
    least = max(_FEWEST, int(share * output.samples))
    share_lost = max(VARIATION * limit, _LOST)
    found = []
    for column, first, end in _runs(counts, least):
        count, error, square, total = sums[:, column, first:end].sum(axis=1).tolist()
        error = max(0.0, error - _worst_errors(output, count))
        size, deviation = (
            (square / count) ** 0.5,
            max(square / count - (total / count) ** 2, 0) ** 0.5,
        )
        step = float(ulp(np.array([size]))[0])
        others, off, larger, _ = sums[:, column, end:].sum(axis=1).tolist()
        usual = (max(off, HALF_SPACING**2 * larger) / others) ** 0.5 if others else 0.0
        elsewhere = sums[1:3, column].sum(axis=1) - sums[1:3, column, first:end].sum(axis=1)
        if elsewhere[1] > 0:  # noise may grow with the values
            usual = max(usual, size * max(0.0, elsewhere[0] / elsewhere[1]) ** 0.5)
        wrong = (error / count) ** 0.5
        lost = wrong > max(share_lost * deviation, FEW_ROUNDINGS * step, MORE * usual)
        if lost and CONSTANT * size < deviation < _NARROW * size:
            found.append((deviation >= _SAYS * step, wrong / deviation, column, first, end, count))
    if not found:
        return []
    certain, ratio, column, first, end, count = max(found)
    low, high = (level_ends()[at - 1] for at in (first, end))
    far = not counts[column, first - 1] and not counts[column, end : end + 1].any()
    text = (
        f"output {output.name!r}: in column {column} of {len(counts)}, {count:,.0f} of "
        f"{output.samples:,} samples have a size of {low:.4g} to {high:.4g}"
        f"{', far from all others' * far}, and what tells them apart is off by "
        f"{number_beside(ratio, share_lost)} of its own size, budget {share_lost:.10g}"
    )
    verdict = Verdict.FAIL if certain else Verdict.INCONCLUSIVE
    measured = ratio / VARIATION
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)]


def _runs(counts: np.ndarray, least: int) -> Iterator[tuple[int, int, int]]:
    """Column, first level and end of each group with an empty level between it and all others.

    A group may lie on both sides of the end of a level, so each level is one, too.
    """
    for column, row in enumerate(counts):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row > 0, [0]])))
        single = [(level, level + 1) for level in np.flatnonzero(row).tolist()]
        for first, end in {*map(tuple, edges.reshape(-1, 2).tolist()), *single}:
            if first and least <= row[first:end].sum() < row.sum():
                yield column, first, end


def _worst_errors(output: OutputDrift, count: float) -> float:
    """The squared errors that the worst samples of a group of this size may have at most."""
    errors = np.sort(output.totals.rows.values[:, 0].astype(float) ** 2)
    aside = (1 - _MOST) * count
    worst = max(1, round(aside / output.samples * len(errors)))
    return aside * float(errors[-worst:].mean())


def _groups(values: np.ndarray, least: int) -> Iterator[tuple[int, int]]:
    """First member and end of each group of sorted values that all others are farther from."""
    gaps = np.diff(values)
    widest = float(gaps.max(initial=0.0))
    known = set()
    for gap in widest * 0.5 ** np.arange(_HALVINGS) if widest else ():
        cuts = np.concatenate([[0], np.flatnonzero(gaps >= gap) + 1, [len(values)]])
        for first, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            if end - first >= least and values[end - 1] - values[first] < gap:
                known.add((first, end))
    yield from sorted(known)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values * values).mean())) if len(values) else 0.0
