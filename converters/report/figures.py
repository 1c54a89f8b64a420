"""Pictures as rows of bars: the length of each bar as a share of the width, and its text.

A bar needs no script and fits a phone and a sheet of paper, and its text is for readers who cannot
see it.
"""

import math
from collections.abc import Sequence

from tfmp.converters.drift.verdict import Check, Verdict
from tfmp.converters.report.explanation import Explanation, LayerError
from tfmp.converters.report.model import CandidateReport
from tfmp.converters.report.summary import (
    cause,
    limited,
    name_of,
    number,
    share_of_limit,
    upper_bound,
    value_of,
)
from tfmp.shared.html_page import Bar
from tfmp.shared.reporting import Picture

# The track of a budget bar ends here; the budget's line stands at 1.
_TRACK_END = 1.5

# Where the line of the budget stands, share of the track.
BUDGET_LINE = 1 / _TRACK_END

# Bars of one candidate that are read at a glance.
_MOST_BARS = 6

# Errors below this are float32's own; the scale begins here.
_SMALLEST_ERROR = 1e-7

# More bars are no longer read at a glance.
_MOST_LAYERS = 40


def budget_bars(candidates: Sequence[CandidateReport]) -> tuple[Bar, ...]:
    """The share of its limits that a candidate uses, the check that decides first; of several
    candidates, the deciding check alone.

    Several checks under one limit, such as columns and places of an output, are one bar. A fault
    that no budget allows, such as NaN, hides what follows from it.
    """
    shown = [one for one in candidates if (check := cause(one)) and _is_drawn(check)]
    bars: list[Bar] = []
    for candidate in shown:
        worst = {(check.name, check.output): check for check in reversed(limited(candidate))}
        if first := cause(candidate):
            worst[first.name, first.output] = first
        order = sorted(worst.values(), key=share_of_limit, reverse=True)
        order.sort(key=lambda check: check != first)
        most = _MOST_BARS if len(shown) == 1 and first and first.limit is not None else 1
        bars += [_budget_bar(check, _label(candidates, candidate, check)) for check in order[:most]]
    return tuple(bars)


def _is_drawn(check: Check) -> bool:
    return check.limit is not None or (check.verdict is Verdict.FAIL and bool(check.measured))


def _label(candidates: Sequence[CandidateReport], one: CandidateReport, check: Check) -> str:
    """The names of what is several."""
    names = [one.name] if len(candidates) > 1 else []
    names += [name_of(check)]
    names += [check.output] if len(one.outputs) > 1 and check.output else []
    return ", ".join(names)


def _budget_bar(check: Check, label: str) -> Bar:
    limit = check.limit or 0.0
    used, bound = (
        _clip(value / (limit * _TRACK_END) if limit else float(value > 0))
        for value in (check.measured or 0.0, upper_bound(check) or 0.0)
    )
    return Bar(
        label=label,
        text=value_of(check),
        length=used,
        bound=bound if upper_bound(check) is not None else None,
        cut=share_of_limit(check) > _TRACK_END,
        verdict=check.verdict,
    )


def _clip(share: float) -> float:
    return min(1.0, max(0.0, share)) if share == share else 1.0


def _share(error: float, largest: float) -> float:
    """The place of an error on a logarithmic scale that ends at the largest, from 0 to 1."""
    if not math.isfinite(error):
        return 1.0
    decades = math.log(max(largest, 10 * _SMALLEST_ERROR) / _SMALLEST_ERROR)
    return math.log(max(error, _SMALLEST_ERROR) / _SMALLEST_ERROR) / decades


def layer_picture(explanation: Explanation, failed: bool) -> Picture:
    """The layers that matter most, in the order of execution."""
    shown = _most_telling(explanation)
    errors = [one.cumulative for one in shown]  # one that is not finite is past 1
    largest = max((error if math.isfinite(error) else 1.0 for error in errors), default=0.0)
    named = explanation.culprit.layer if explanation.culprit else None
    bars = tuple(
        Bar(
            f"{layer.layer} ← {'look here first' if failed else 'largest step'}"
            if layer.layer == named
            else layer.layer,
            _text(layer),
            _share(layer.cumulative, largest),
            verdict=Verdict.FAIL if layer.layer == named and failed else None,
        )
        for layer in shown
    )
    more = len(explanation.layers) - len(shown)
    caption = (
        "Relative L2 error by layer in the order of execution, on a logarithmic scale (alone: with "
        "only this layer in FP16)"
    )
    return Picture(caption + f"; the JSON report has {more} more layers" * bool(more), bars)


def _most_telling(explanation: Explanation) -> list[LayerError]:
    """Layers with the largest jumps and errors of their own, in the order of execution."""
    layers = explanation.layers
    named = {explanation.first_nonfinite, explanation.largest_jump}

    def weight(index: int) -> tuple[bool, float]:
        layer = layers[index]
        return layer.layer in named, max(layer.jump, layer.local)

    order = sorted(range(len(layers)), key=weight, reverse=True)
    return [layers[index] for index in sorted(order[:_MOST_LAYERS])]


def _text(layer: LayerError) -> str:
    whole, alone = (
        f"{lost:,} not finite" if lost else number(error)
        for lost, error in (
            (layer.nonfinite, layer.cumulative),
            (layer.local_nonfinite, layer.local),
        )
    )
    return f"{whole}, alone {alone}"
