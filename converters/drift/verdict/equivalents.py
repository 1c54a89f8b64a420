"""Answers that differ as numbers and say the same: angles a turn apart, rotations of either sign.

Whether an output holds such answers, nobody but its user knows. So they end with a question.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfmp.converters.drift import (
    LENGTHS,
    QUATERNION,
    ROTATION,
    ROUNDED,
    DriftBudget,
    Kind,
    OutputDrift,
    Totals,
    range_begins,
    without_turned,
)
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.closeness import closeness_checks

_KINDS = frozenset({Kind.OTHER, Kind.REGRESSION})

_ANGLES = (
    "at the other end of a range of {}. If they turn, as angles, hours and hues do, they say the "
    "same: then let the model answer with a sine and a cosine"
)

# Mean square about the middle of values from 0 to 1 that turn: 1/12 where they are even, and up to
# 1/4 where all are at the ends, as sure probabilities are.
_EVEN = 1 / 6

_QUATERNIONS = (
    "the same with the other sign. If they are quaternions, that is the same rotation: then give "
    "them one sign before the model's end, such as that of the first number"
)


_ROTATIONS = (
    "the same rotation the other way round, if three numbers are an axis times an angle. Then let "
    "the model answer with a quaternion of one sign, or with a matrix"
)


def equivalence_check(
    output: OutputDrift, budget: DriftBudget, checks: Sequence[Check]
) -> Check | None:
    """A question in place of failures, where all that is wrong may be equivalent answers.

    Args:
        output: an output with distances.
        budget: its limits.
        checks: of these distances.
    """
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    readable = output.known is None or output.task.kind in _KINDS
    readable &= not (output.nonfinite or output.infinite_lost)
    if not failed or not readable or not output.totals.turned.samples:
        return None
    readings = None if _is_more_wrong(output.totals) else _readings(output.totals)
    rest = without_turned(output.totals)
    if readings is None:
        return None
    if rest.samples:
        error, norm = (rest.rows.counts * rest.rows.values[:, :2].T ** 2).sum(axis=1)
        others = replace(
            output,
            samples=rest.samples,
            totals=rest,
            rel_l2=float(np.sqrt(error / norm)) if norm else 0.0,
        )
        if any(check.verdict is Verdict.FAIL for check in closeness_checks(others, budget)):
            return None
    text = (
        f"{failed[0].text}. But {output.totals.turned.samples:,} of {output.samples:,} samples are "
        f"{'; or '.join(readings)}"
    )
    return replace(failed[0], verdict=Verdict.INCONCLUSIVE, text=text, p=None)


# Of the squared error of columns that turn, this share may lie on samples that are off otherwise.
_OTHERWISE = 0.1


def _is_more_wrong(totals: Totals) -> bool:
    """Whether columns that turn are off on other samples, too: then no turn explains them."""
    turns, slices = totals.turned.slices, totals.off.slices
    if not slices.count or slices.count != turns.count or len(totals.turns) % slices.count:
        return False
    some = np.array(totals.turns).reshape(-1, slices.count)[: len(LENGTHS)].any(axis=0)
    return bool((slices.error_sq > _OTHERWISE * turns.error_sq)[some].any())


def _readings(totals: Totals) -> list[str] | None:
    """What columns are in which values were turned; None if the others contradict it."""
    slices = totals.slices
    if len(totals.turns) != slices.count * (len(LENGTHS) + 2):
        return None
    *turns, signs, rotations = np.array(totals.turns).reshape(-1, slices.count)
    ends = slices.edges[[0, 2]].min(axis=0), slices.edges[[1, 3]].max(axis=0)
    found = []
    each = totals.values / slices.count
    for (name, length), counts in zip(LENGTHS.items(), turns, strict=True):
        some = counts > 0
        low, high = (values[some] / length for values in ends)
        begins = range_begins(low, 1.0)
        if (low < begins - ROUNDED).any() or (high > begins + 1 + ROUNDED).any():
            return None
        # Squares about the middle: shares and probabilities may be all at the ends.
        middle, mean = begins + 0.5, slices.reference_sum[some] / each / length
        spread = slices.reference_sq[some] / each / length**2 + middle * (middle - 2 * mean)
        pictures = some.all() and each > totals.samples  # a hue has a brightness beside it
        if length == 1 and (pictures or (spread > _EVEN).any()):
            return None
        found += [_ANGLES.format(name)] if counts.any() else []
    for first in np.flatnonzero(signs).tolist():
        size = float(slices.reference_sq[first : first + QUATERNION].sum()) / each
        if abs(size - 1) > 2 * ROUNDED:
            return None
    for first in np.flatnonzero(rotations).tolist():
        if max(abs(end[first : first + ROTATION]).max() for end in ends) > (1 + ROUNDED) * np.pi:
            return None
    found += [_QUATERNIONS] if signs.any() else []
    return found + ([_ROTATIONS] if rotations.any() else [])
