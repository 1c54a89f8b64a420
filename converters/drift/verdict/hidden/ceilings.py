"""The check of numbers near a ceiling: of risks near 1 and hours near 100 % the distance counts.

Nine of ten chances of survival are 0.99 and more. If all of these become 1, nothing is off by a
hundredth of its size, and nobody is at risk any more.
"""

from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import (
    CEILING_LEVELS,
    CEILINGS,
    COMPILED,
    DriftBudget,
    Kind,
    OutputDrift,
    ceiling_ends,
)
from tfmp.converters.drift.verdict import (
    DECIDING,
    HALF_SPACING,
    MORE,
    Check,
    Verdict,
    number_beside,
)

# A number is near its ceiling if it is no farther than this share of it.
_NEAR = 1 / 16

# So many samples tell, and so many times as many as of numbers that lie anywhere up to the ceiling.
_ENOUGH, _CHANCE = 30, 3.0

# If distances are off by less than half of themselves, that may be a steep function of a number
# with noise.
_WRONG = 0.5


@dataclass(frozen=True)
class _Near:
    """The numbers of some columns that are nearer to their ceiling than the end of each level.

    Attributes:
        samples: their number, of shape (columns, levels).
        relative: their error relative to the distance from the ceiling.
        error: their error as a share of the ceiling.
        usual: the least error of numbers that are farther away, as a share of these numbers.
    """

    samples: np.ndarray
    relative: np.ndarray
    error: np.ndarray
    usual: np.ndarray


def ceiling_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The check of one output of a few numbers; none where all are right or none is near."""
    limit, places = budget.slice_rel_l2, output.totals.places
    counts = np.array(places.ceiling_counts, float).reshape(-1, len(CEILINGS), CEILING_LEVELS)
    edges = output.totals.slices.edges[:2]
    measured = counts.size and edges.shape[1] == len(counts)
    decides = output.totals.unit and output.task.kind in DECIDING
    said = output.known is not None and not output.known.why.startswith(COMPILED)
    if limit is None or not measured or (decides and said) or output.task.kind is Kind.EMBEDDING:
        return []
    which = np.searchsorted(CEILINGS, np.abs(edges).max(axis=0))
    columns = np.flatnonzero(which < len(CEILINGS))
    if places.ceilings.count != counts.size or not columns.size:
        return []
    found, ends = _near(output, counts, columns, which[columns]), ceiling_ends()
    least = np.maximum(_ENOUGH, _CHANCE * ends * output.samples)
    wrong = (ends <= _NEAR) & (found.samples >= least) & (found.relative > limit)
    wrong &= found.error > MORE * found.usual
    if not wrong.any():
        return []
    lost = wrong & (found.relative > max(limit, _WRONG))
    chosen = np.where(lost if lost.any() else wrong, found.samples, 0.0)
    at = np.unravel_index(int(chosen.argmax()), chosen.shape)
    worst, ceiling = float(found.relative[at]), CEILINGS[which[columns[at[0]]]]
    text = (
        f"output {output.name!r}: column {columns[at[0]]} of {len(counts)} is off by "
        f"{number_beside(worst, limit)} of its distance from {ceiling:.0f}, budget {limit:.10g}, "
        f"on the {found.samples[at]:,.0f} of {output.samples:,} samples on which that is below "
        f"{ends[at[1]] * ceiling:.3g}, and by {found.error[at] / found.usual[at]:.3g} times as "
        "much as on others, so it is no noise"
    )
    verdict = Verdict.FAIL if lost.any() and not decides else Verdict.INCONCLUSIVE
    if decides:
        kind = output.task.kind.value
        text += f". If only decisions count, declare --task {output.name}={kind}"
    elif verdict is Verdict.INCONCLUSIVE:
        text += f". If these do not matter, set {output.name}.slice_rel_l2 to more than that"
    return [Check("slice_rel_l2", output.name, worst, None, None, limit, verdict, text)]


def _near(output: OutputDrift, counts: np.ndarray, columns: np.ndarray, which: np.ndarray) -> _Near:
    """The errors of columns, each below one of the ceilings."""
    ceilings = output.totals.places.ceilings
    sums = (counts, ceilings.error_sq, ceilings.reference_sq, ceilings.reference_sum)
    count, error, square, distance = (each.reshape(counts.shape)[columns, which] for each in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of each level by itself, as a share of its numbers; rounding is off by half a spacing.
        own = np.maximum(np.sqrt(error / (count - 2 * distance + square)), HALF_SPACING)
        own = np.where(count >= _ENOUGH, own, np.inf)
        usual = np.minimum.accumulate(own, axis=1)
        usual = np.concatenate([np.full_like(usual[:, :1], np.inf), usual[:, :-1]], axis=1)
        few, error, square = (
            each[:, ::-1].cumsum(axis=1)[:, ::-1] for each in (count, error, square)
        )
        relative = np.sqrt(np.where(error > 0, error / square, 0.0))
        return _Near(few, relative, np.sqrt(error / few), usual)
