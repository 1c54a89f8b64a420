"""Pictures as rows of bars: the length of each bar as a share of the width, and its text.

The templates draw a row as an inline SVG whose lengths are percentages: it needs no script and fits
a phone and a sheet of paper. The table around it has its text for readers who cannot see it.
"""

import math
from itertools import groupby, pairwise

from tfmp.converters.drift import MARGIN_EDGES, OutputDrift
from tfmp.converters.drift.verdict import Check, Verdict
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.report.summary import (
    latency_rows,
    latency_text,
    number,
    number_of_ms,
    percent,
    size_text,
    stage_values,
)
from tfmp.shared.html_page import Bar

# The track of a budget bar ends here; the budget's line stands at 1.
_TRACK_END = 1.5

# More bars than this are no longer read at a glance.
_MOST_BARS = 12


_NAMES = {
    "run": "Run",
    "nonfinite": "Non-finite values",
    "infinite_lost": "Infinities lost",
    "saturated": "Saturated values",
    "collapsed": "Collapsed",
    "reference_nan": "NaN in the reference",
    "rel_l2": "Relative L2 error",
    "max_abs": "Largest error",
    "sample_rel_l2": "Worst sample",
    "sample_share": "Samples over the limit",
    "between_samples": "Between samples",
    "between_columns": "Between columns",
    "between_places": "Between places",
    "between_outputs": "Between outputs",
    "wrong_samples": "Samples with a wrong value",
    "near_end": "Samples with a wrong distance from the end",
    "flip_rate": "Flip rate",
    "class_flip_rate": "Most changed class",
    "row_rate": "Rows on one side only",
    "meaning": "Change under another meaning",
}

# Checks whose number counts these; that of others is a rate or a distance.
_COUNTS = dict.fromkeys(
    ("nonfinite", "infinite_lost", "saturated", "reference_nan", "both_nan"), "values"
)

# Words of metrics that are not written in small letters.
_SPELLED = {"iou": "IoU", "f1": "F1", "roc": "ROC", "auc": "AUC"}


def _name(check: Check) -> str:
    """A check's name for people: "mean_iou_drop" is "Mean IoU drop"."""
    if check.name in _NAMES:
        return _NAMES[check.name]
    first, *words = (_SPELLED.get(word, word) for word in check.name.split("_"))
    return " ".join([first[:1].upper() + first[1:], *words])


# Where the line of the budget stands, share of the track.
BUDGET_LINE = 1 / _TRACK_END


def budget_bars(candidate: CandidateReport) -> tuple[list[Bar], int]:
    """The share of each limit that a candidate uses, worst first, and the number of further bars.

    Checks without a share to show are left out, such as a check for too few samples. Of several
    checks under one limit, such as columns and places of an output, the worst is shown.
    """
    drawn = [check for check in candidate.checks if check.measured is not None]
    drawn = [check for check in drawn if check.name != "min_samples"]
    # What passes there was measured without the values that are not finite.
    broken = {check.output for check in drawn if check.name == "nonfinite"}
    drawn = [c for c in drawn if c.verdict is not Verdict.PASS or c.output not in broken]
    several = len(candidate.outputs) > 1
    worst = {(check.name, check.output): check for check in sorted(drawn, key=_share)}
    drawn = sorted(worst.values(), key=_share, reverse=True)
    bars = [_budget_bar(check, several) for check in drawn[:_MOST_BARS]]
    return bars, max(0, len(drawn) - _MOST_BARS)


def _share(check: Check) -> float:
    """Share of the limit used; with a bound, of the bound, for it decides."""
    if check.limit is None or check.measured is None:
        return float("inf")
    value = check.measured if check.upper is None else max(check.measured, check.upper)
    if value != value:
        return float("inf")
    if value <= 0:
        return 0.0
    return value / check.limit if check.limit > 0 else float("inf")


def _budget_bar(check: Check, several: bool) -> Bar:
    label = _name(check)
    if several and check.output:
        label = f"{label}, {check.output}"
    if check.limit is None:
        return Bar(label, _unlimited_text(check), 1.0, cut=True, verdict=check.verdict)
    scale = check.limit * _TRACK_END
    measured = check.measured if check.measured is not None else 0.0
    length = _clip(measured / scale if scale else float(measured > 0))
    bound = None
    if check.upper is not None:
        bound = _clip(check.upper / scale if scale else float(check.upper > 0))
    return Bar(
        label=label,
        text=_limited_text(check),
        length=length,
        bound=bound,
        cut=_share(check) > _TRACK_END,
        verdict=check.verdict,
    )


def _clip(share: float) -> float:
    return min(1.0, max(0.0, share)) if share == share else 1.0


def _unlimited_text(check: Check) -> str:
    if check.name == "run":
        return "did not run"
    if check.name == "collapsed":
        return "yes"
    if check.name in _COUNTS:
        return f"{check.measured or 0:,.0f} {_COUNTS[check.name]}"
    return number(check.measured)


def _limited_text(check: Check) -> str:
    if check.upper is None:
        return f"{number(check.measured)} of {number(check.limit)}"
    bound = check.lower if check.verdict is Verdict.FAIL else check.upper
    side = "≥" if check.verdict is Verdict.FAIL else "≤"
    return f"{percent(check.measured)} ({side} {percent(bound)}) of {percent(check.limit)}"


def margin_bars(output: OutputDrift) -> list[Bar]:
    """The share of samples that flip, by the margin of the reference's decision."""
    edges = [number(edge) for edge in MARGIN_EDGES]
    labels = [f"below {edges[0]}"]
    labels += [f"{low} to {high}" for low, high in pairwise(edges)]
    labels.append(f"{edges[-1]} and more")
    bars = []
    totals = output.totals
    for label, samples, flips in zip(
        labels, totals.margin_samples, totals.margin_flips, strict=False
    ):
        if samples:
            verdict = Verdict.FAIL if flips else None
            text = f"{flips:,} of {samples:,} flip"
            bars.append(Bar(label, text, flips / samples, verdict=verdict))
    return bars


# Shortest drift a logarithmic bar shows: well below what float32 resolves.
_SMALLEST_DRIFT = 1e-9


def stage_bars(report: DriftReport, candidate: CandidateReport) -> list[Bar]:
    """The error that each step added, on a logarithmic scale from 1e-9 to the largest."""
    values = stage_values(report, candidate)
    known = [value for _, value in values if value is not None and math.isfinite(value)]
    decades = math.log10(max([*known, 10 * _SMALLEST_DRIFT]) / _SMALLEST_DRIFT)
    bars = []
    for name, value in values:
        if value is None:
            continue
        if not math.isfinite(value):
            bars.append(Bar(name, number(value), 1.0, cut=True))
            continue
        share = math.log10(max(value, _SMALLEST_DRIFT) / _SMALLEST_DRIFT) / decades
        bars.append(Bar(name, number(value), _clip(share)))
    return bars


def size_bars(report: DriftReport) -> list[Bar]:
    """The sizes of the files beside each other."""
    files = [(report.reference.name, report.reference.size_bytes)]
    files += [(candidate.name, candidate.size_bytes) for candidate in report.candidates]
    known = [(name, size) for name, size in files if size is not None]
    largest = max((size for _, size in known), default=0)
    return [Bar(name, size_text(size), size / largest if largest else 0.0) for name, size in known]


def latency_bars(report: DriftReport) -> list[Bar]:
    """The median latencies beside each other; the thin line goes on to the slowest 5 %."""
    timed = [(report.reference.name, report.reference.latency)]
    timed += [(candidate.name, candidate.latency) for candidate in report.candidates]
    known = [(name, latency) for name, latency in timed if latency is not None]
    longest = max((latency.high_ms for _, latency in known), default=0.0)
    return [
        Bar(
            name,
            latency_text(latency),
            latency.median_ms / longest if longest else 0.0,
            bound=latency.high_ms / longest if longest else None,
        )
        for name, latency in known
    ]


def batch_latency_bars(report: DriftReport) -> list[tuple[int, list[Bar]]]:
    """The median time of a call and its memory, model beside model, for each batch size."""
    found: list[tuple[int, list[Bar]]] = []
    for size, rows in groupby(latency_rows(report), key=lambda row: row[1].batch):
        timed = list(rows)
        longest = max(latency.high_ms for _, latency in timed)
        bars = [
            Bar(
                name,
                f"{number_of_ms(latency)}, {size_text(latency.memory_bytes)}",
                latency.median_ms / longest if longest else 0.0,
                bound=latency.high_ms / longest if longest else None,
            )
            for name, latency in timed
        ]
        found.append((size, bars))
    return found


def _shares(labels: list[str], counts: list[int]) -> list[Bar]:
    """A bar for each count, without the empty ones at both ends."""
    filled = [index for index, count in enumerate(counts) if count]
    if not filled:
        return []
    whole = sum(counts)
    return [
        Bar(
            labels[index], f"{counts[index]:,} ({counts[index] / whole:.1%})", counts[index] / whole
        )
        for index in range(filled[0], filled[-1] + 1)
    ]
