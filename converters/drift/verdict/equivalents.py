"""Answers that differ as numbers and say the same: angles a turn apart, quaternions of either sign.

Whether an output holds such answers, nobody but its user knows. So they end with a question.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfmp.converters.drift import DriftBudget, Kind, OutputDrift
from tfmp.converters.drift.verdict.check import Check, Verdict

# Ranges after which angles begin anew; axes of no direction do so after half a turn.
_RANGES = {"pi": math.pi, "2 pi": 2 * math.pi, "180": 180.0, "360": 360.0}

# Values beyond the ends of a range, and lengths of quaternions besides 1: FP16 rounds them.
_ROUNDED = 0.002

_KINDS = frozenset({Kind.OTHER, Kind.REGRESSION})


@dataclass(frozen=True)
class _Reading:
    """What an output may be, and its errors if it is that.

    Attributes:
        errors: of each distinct sample.
        differ: samples with another error as numbers.
        text: what these are, as the rest of a sentence, and the next step.
    """

    errors: np.ndarray
    differ: np.ndarray
    text: str


def without_equivalents(
    output: OutputDrift, budget: DriftBudget, checks: Sequence[Check]
) -> list[Check]:
    """The checks, none of which fails where all that is wrong may be equivalent answers.

    Args:
        output: an output with distances.
        budget: its limits.
        checks: of these distances.
    """
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    limit = budget.rel_l2
    if not failed or limit is None or output.nonfinite or output.infinite_lost:
        return list(checks)
    reading = _reading(output)
    if reading is None or not reading.differ.any():
        return list(checks)
    rows = output.totals.rows
    size = float((rows.counts * rows.values[:, 1] ** 2).sum())
    left = float((rows.counts * reading.errors**2).sum())
    if rows.counts.sum() != output.samples or left > limit**2 * size:
        return list(checks)
    count = int(rows.counts[reading.differ].sum())
    text = f"{failed[0].text}. But {count:,} of {output.samples:,} samples are {reading.text}"
    asked = replace(failed[0], verdict=Verdict.INCONCLUSIVE, text=text, p=None)
    return [asked, *(check for check in checks if check.verdict is Verdict.PASS)]


def _reading(output: OutputDrift) -> _Reading | None:
    totals = output.totals
    if output.task.kind not in _KINDS or not len(totals.rows):
        return None
    if totals.values == totals.samples and totals.slices.count == 1:
        return _turns(output)
    if totals.values == 4 * totals.samples and totals.slices.count == 4:
        return _signs(output)
    return None


def _turns(output: OutputDrift) -> _Reading | None:
    """The output read as angles, if values at one end of a range become those at the other."""
    error, edges = output.totals.rows.values[:, 0], output.totals.slices.edges[:, 0]
    for name, length in _RANGES.items():
        low, high = edges.min() / length, edges.max() / length
        begins = 0.0 if low >= -_ROUNDED else -0.5
        if low < begins - _ROUNDED or high > begins + 1 + _ROUNDED:
            continue
        rest = np.abs(length - error)
        text = (
            f"at the other end of a range of {name}. If they are angles, they say the same: then "
            "let the model answer with a sine and a cosine"
        )
        if ((rest < error) & (rest < 0.1 * length)).any():
            return _Reading(np.minimum(error, rest), rest < error, text)
    return None


def _signs(output: OutputDrift) -> _Reading | None:
    """The output read as unit quaternions, if rows are of length 1."""
    error, norm = output.totals.rows.values[:, :2].T
    if np.abs(norm - 1).max() > _ROUNDED:
        return None
    # |c - r|**2 + |c + r|**2 = 2 |c|**2 + 2 |r|**2, which is 4.
    other = np.sqrt(np.maximum(4 - error**2, 0))
    text = (
        "the same with the other sign. If they are quaternions, that is the same rotation: then "
        "give them one sign before the model's end, such as that of the first number"
    )
    return _Reading(np.minimum(error, other), other < error, text)
