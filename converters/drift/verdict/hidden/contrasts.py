"""Checks of differences: what lies between two columns, or two outputs, that vary together."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import (
    COMPILED,
    DECLARED,
    MOST_SLICES,
    DriftBudget,
    Kind,
    OutputDrift,
    Slices,
    contrast_pairs,
    pairs_beside,
    size_beside,
)
from tfmp.converters.drift.columns import contrast_rows
from tfmp.converters.drift.verdict import (
    CONSTANT,
    CORRECT,
    NO_NUMBERS,
    ONE_NUMBER,
    VARIATION,
    Check,
    Verdict,
    deviation_of,
    doubt,
    fault,
    live_samples,
    number_beside,
    values_of_each,
)
from tfmp.shared.numerics import FLOAT16, ulp

# Columns vary together if their difference varies by less than this share of either.
_TOGETHER = 0.1

# Two that differ by less than this share may be the same one twice. So may those of which an error
# is less than this share of what tells them apart; if it is more, they may have changed places.
_TWICE, _LOST = 0.01, 0.9

# Three numbers or a few more may be values of actions if they differ by less than this share of how
# each varies. What all share is an offset to whoever takes the largest, so differences are limited
# as scores are that an offset hides.
_ACTIONS, _SHARED = 3, 0.25

# A difference that varies by less than this share of its size is an offset, such as kelvin beside
# Celsius: float32 rounds it, and sums of squares keep 30 bits.
_OFFSET = 1e-4

# Boxes that tell how much their sizes vary.
_FEWEST = 10


def extent_checks(output: OutputDrift, limit: float) -> list[Check]:
    """Whether widths are right between corners or ends that are far from zero."""
    extents, corners = output.totals.extents, output.totals.slices
    ends = 2 * extents.count
    known = output.totals.corners and 0 < ends <= corners.count < MOST_SLICES
    each = output.totals.values / max(1, corners.count)
    if not known or each < _FEWEST:
        return []
    size = np.sqrt(corners.reference_sq[:ends] / each).reshape(2, -1).max(axis=0)
    spacing = ulp(np.maximum(size, np.finfo(np.float64).tiny))
    variance = np.maximum(extents.reference_sq - extents.reference_sum**2 / each, 0) / each
    error, deviation = np.sqrt(extents.error_sq / each), np.sqrt(variance)
    varies = deviation > np.maximum(ONE_NUMBER * spacing, CONSTANT * size)
    if not varies.any():
        return []
    ratio = np.where(varies, error / np.where(varies, deviation, 1.0), 0.0)
    worst = int(ratio.argmax())
    told = number_beside(float(ratio[worst]), limit * VARIATION)
    text = (
        f"output {output.name!r}: what lies between columns {worst} and {worst + extents.count}, "
        f"such as the size of a box, is off by {told} of what tells samples apart, budget "
        f"{limit * VARIATION:.10g}"
    )
    verdict = Verdict.PASS if ratio[worst] <= limit * VARIATION else Verdict.FAIL
    # Each of two corners is rounded.
    if verdict is Verdict.FAIL and error[worst] <= 2**0.5 * CORRECT * spacing[worst]:
        verdict = Verdict.INCONCLUSIVE
        text += NO_NUMBERS
    measured = float(ratio[worst]) / VARIATION
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)]


def contrast_checks(output: OutputDrift, limit: float) -> list[Check]:
    """Whether columns that vary together still differ, such as values of actions."""
    totals = output.totals
    columns, between = totals.slices, totals.contrasts
    first, second = contrast_pairs(columns.count)
    known = output.known
    if not _unclear(output) or not between.count or between.count != len(first):
        return []
    each, own = _rows_of(output), deviation_of(output, columns)
    variance = between.reference_sq / each - (between.reference_sum / each) ** 2
    error, apart = np.sqrt(between.error_sq / each), np.sqrt(np.maximum(variance, 0))
    together = np.minimum(own[first], own[second])
    least = np.maximum(CONSTANT * together, _OFFSET * np.sqrt(between.reference_sq / each))
    few = _is_followed_in_part(output)
    if few:  # such as a grey picture, whose colours are the same number
        size = np.sqrt(columns.reference_sq / values_of_each(output, columns))
        spacing = ulp(np.maximum(size, FLOAT16.smallest_normal))
        least = np.maximum(least, ONE_NUMBER * np.minimum(spacing[first], spacing[second]))
    hidden = (apart < _TOGETHER * together) & (apart > least)
    ratio = np.where(hidden, error / np.where(hidden, apart, 1.0), 0.0)
    # Of several numbers, two may be the same one twice; actions all share their state.
    if known is not None and columns.count > 2:
        over = ratio > limit * VARIATION
        lost = (ratio > _LOST) & (apart > _TWICE * together)
        pairs = np.bincount(np.append(first[over], second[over]), minlength=columns.count)
        ratio[~lost & (np.maximum(pairs[first], pairs[second]) < 2)] = 0.0
    worst = int(ratio.argmax())
    if ratio[worst] <= limit * VARIATION:
        each_two = len(first) == columns.count * (columns.count - 1) // 2
        actions = each_two and not few
        return _action_checks(output, error, apart, limit) if actions else []
    text = (
        f"output {output.name!r}: columns {first[worst]} and {second[worst]} vary together, and "
        f"what tells them apart is off by {number_beside(float(ratio[worst]), limit * VARIATION)} "
        f"of its own variation, budget {limit * VARIATION:.10g}. If nobody compares them, declare "
        f"--task {output.name}=regression"
    )
    return [doubt("slice_rel_l2", output.name, text, float(ratio[worst]) / VARIATION)]


def _rows_of(output: OutputDrift) -> float:
    """The number of rows in which columns were compared, of all samples."""
    sizes, columns = output.totals.places.sizes, output.totals.slices
    if not sizes:  # samples of several shapes, such as sentences
        return float(values_of_each(output, columns)[0])
    return live_samples(output) * len(contrast_rows(sizes[:-1], columns.count))


def _is_followed_in_part(output: OutputDrift) -> bool:
    """Whether columns are compared in some of an output's rows, as there are many."""
    grid, columns = output.totals.places.sizes[:-1], output.totals.slices.count
    return len(contrast_rows(grid, columns)) < math.prod(grid)


def _action_checks(
    output: OutputDrift, error: np.ndarray, apart: np.ndarray, limit: float
) -> list[Check]:
    """Whether what tells all columns apart is right enough to choose the largest."""
    columns = output.totals.slices
    own, typical = deviation_of(output, columns).min(), np.sqrt((apart**2).mean())
    if columns.count < _ACTIONS or not CONSTANT * own < typical < _SHARED * own:
        return []
    ratio = float(np.sqrt((error**2).mean()) / typical)
    if ratio <= limit:
        return []
    text = (
        f"output {output.name!r}: its columns vary together, as values of actions do, and what "
        f"tells them apart is off by {number_beside(ratio, limit)} of its own variation, budget "
        f"{limit:.10g}: about {np.arctan(ratio) / np.pi:.0%} of all pairs change places. If nobody "
        f"compares them, declare --task {output.name}=regression"
    )
    return [doubt("slice_rel_l2", output.name, text, ratio)]


# What lies between two outputs is dead if it varies by less than this share of what it did.
_DEAD = 0.05


@dataclass(frozen=True)
class _Beside:
    """Two outputs that vary together, and the error of what tells them apart.

    Attributes:
        names: their names.
        ratio: the error relative to the variation of their difference.
        limit: the ratio that the budget allows.
        certain: whether they are compared for sure: nothing is known of them, or they are ends of
            an interval, as one is never the smaller.
        dead: whether they are such ends, and what lies between is the same for all samples though
            FP16 has numbers for it.
    """

    names: tuple[str, str]
    ratio: float
    limit: float
    certain: bool
    dead: bool


def beside_checks(outputs: Sequence[OutputDrift], budget: DriftBudget) -> list[Check]:
    """Whether outputs that vary together still differ, such as two ends or quantiles."""
    over = [pair for pair in _beside(outputs, budget) if pair.ratio > pair.limit]
    # Of two that are numbers by their loss, one may be the other once more; of three, hardly.
    often = Counter(name for pair in over for name in pair.names)
    over = [pair for pair in over if pair.certain or max(often[name] for name in pair.names) > 1]
    if not over:
        return []
    worst = max(over, key=lambda pair: (pair.dead, pair.ratio))
    one, other = worst.names
    text = (
        f"outputs {one!r} and {other!r} vary together, and what tells them apart is off by "
        f"{number_beside(worst.ratio, worst.limit)} of its own variation, budget "
        f"{worst.limit:.10g}"
    )
    if worst.dead:
        return [fault("slice_rel_l2", one, f"{text}: it is the same for all samples")]
    text += f". If nobody compares them, declare --task {one}=regression"
    return [doubt("slice_rel_l2", one, text, worst.ratio / VARIATION)]


def _beside(outputs: Sequence[OutputDrift], budget: DriftBudget) -> Iterator[_Beside]:
    sizes = [size_beside(o.dtype, o.totals.values, o.samples) for o in outputs]
    pairs = pairs_beside(sizes)
    for first, second in pairs:
        partners = [other for one, other in pairs if one == first]
        between, at = outputs[first].totals.beside, partners.index(second)
        both = outputs[first], outputs[second]
        limits = [budget.for_output(output.name).slice_rel_l2 for output in both]
        values = {output.totals.values for output in both}
        numbers = all(_undeclared(output) and output.totals.slices.count for output in both)
        limit = max((limit for limit in limits if limit is not None), default=None)
        if between.count != len(partners) or not numbers or len(values) > 1 or limit is None:
            continue
        count = values.pop()
        own = [_deviation(output.totals.slices, count) for output in both]
        error, apart = np.sqrt(between.error_sq[at] / count), _deviation(between, count, at)
        least = max(CONSTANT * min(own), _OFFSET * np.sqrt(between.reference_sq[at] / count))
        if count < _FEWEST or not least < apart < _TOGETHER * min(own):
            continue
        low, high, least, most = between.edges[:, at]
        size = max(output.totals.slices.reference_sq.sum() for output in both) / count
        ordered = bool(low >= 0 or high <= 0)
        yield _Beside(
            names=(both[0].name, both[1].name),
            ratio=float(error / apart),
            limit=limit * VARIATION,
            certain=ordered or any(output.known is None for output in both),
            dead=ordered
            and bool(most - least < _DEAD * (high - low))
            and bool(apart > ulp(np.sqrt([size]))[0]),
        )


def _deviation(slices: Slices, count: int, at: int | None = None) -> float:
    """The standard deviation of all values of an output, or of one of its differences."""
    chosen = slice(None) if at is None else slice(at, at + 1)
    mean = slices.reference_sum[chosen].sum() / count
    return float(np.sqrt(max(slices.reference_sq[chosen].sum() / count - mean**2, 0.0)))


def _unclear(output: OutputDrift) -> bool:
    """Whether only the model's loss says that an output holds numbers, or nothing does."""
    known = output.known
    return known is None or (known.kind is Kind.REGRESSION and known.why.startswith(COMPILED))


def _undeclared(output: OutputDrift) -> bool:
    """Whether an output may hold numbers, and nobody declared them."""
    known = output.known
    return known is None or (known.kind is Kind.REGRESSION and known.why != DECLARED)
