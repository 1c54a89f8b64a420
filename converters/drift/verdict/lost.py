"""Checks of views: what an output loses, for each use that somebody may make of it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from tfmp.converters.drift import (
    BETWEEN_OUTPUTS,
    BETWEEN_SAMPLES,
    FLAT,
    NEAR,
    NEAR_END,
    WRONG,
    WRONG_SAMPLES,
    YES_OR_NO,
    DriftBudget,
    Kind,
    OutputDrift,
    View,
    binomial_bounds,
    binomial_p,
    difference,
    tables_of,
    views_of,
)
from tfmp.converters.drift.verdict.check import Check, Verdict, number_beside

_REMEDY = "Keep the end of the model in FP32: as ONNX, with --precision mixed if that end is large"

# A step of FP16, in root mean squares of its rounding.
_STEP = 12**0.5

# Outputs of a model that are compared with one another: pairs grow with the square of their number.
_MOST_OUTPUTS = 8

# What the error of each view is a share of.
_SHARES = {
    BETWEEN_SAMPLES: "the standard deviation between samples",
    "between_columns": "the standard deviation of their difference",
    "between_places": "the steps between neighbouring places",
    BETWEEN_OUTPUTS: "the standard deviation of their difference",
}

# Differences that nobody may read.
_DIFFERENCES = ("between_columns", "between_places", BETWEEN_OUTPUTS)

# Who reads each view: for whom its loss matters.
_READERS = {
    BETWEEN_SAMPLES: "samples are compared or ranked",
    "between_columns": "columns are subtracted",
    "between_places": "the shape of a sample is read, such as steps or gradients",
    BETWEEN_OUTPUTS: "outputs are subtracted",
    NEAR_END: "that distance is read, such as a risk",
}


def lost_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of all views of one output; the first that rounding breaks says what to do."""
    checks: list[Check] = []
    for view in output.views:
        told = any(_REMEDY in check.text for check in checks)
        limit: float | None = getattr(budget, view.view)
        if limit is None:
            continue
        if view.wrong is None:
            checks.append(_pooled(output, view, limit, budget.rel_l2, told))
        elif (check := _share(output, view, limit, budget.confidence)) is not None:
            checks.append(check)
    return checks


def _ends_in_half(output: OutputDrift) -> bool:
    """Whether the candidate gives FP16 numbers alone, as no file does that ends in FP32."""
    given = [part.values[:, 1] for part in output.totals.evidence.parts]
    with np.errstate(over="ignore"):
        return all(np.array_equal(each, each.astype(np.float16), True) for each in given)


def _is_right(view: View, limit: float | None) -> bool:
    """Whether a unit's numbers are right as such, and hardly vary: only some users compare them."""
    return bool(view.unit) and limit is not None and view.error <= limit * view.size


def _pooled(
    output: OutputDrift, view: View, limit: float, numbers: float | None, told: bool = False
) -> Check:
    """A loss of all samples together; `told` if the output's remedy was said already."""
    loss = view.loss
    unit = f" {view.unit}:" if view.unit else ""
    text = (
        f"output {output.name!r}:{unit} the error is {number_beside(loss, limit)} of "
        f"{_SHARES[view.view]} ({view.variation:.3g}), limit {limit:.10g}"
    )
    if loss <= limit:
        return Check(view.view, output.name, loss, None, None, limit, Verdict.PASS, text)
    if view.is_rounding:
        text += f"; FP16 has steps of {view.rounding * _STEP:.2g} there"
        text += "" if told or not _ends_in_half(output) else f". {_REMEDY}"
    asked = output.is_unknown and (view.is_rounding or _is_right(view, numbers))
    asked |= view.is_rounding and view.view in _DIFFERENCES
    verdict = Verdict.FAIL
    if asked or output.task.kind in YES_OR_NO:
        verdict = Verdict.INCONCLUSIVE
        text += _question(output, view)
    return Check(view.view, output.name, loss, None, None, limit, verdict, text)


def _share(output: OutputDrift, view: View, limit: float, confidence: float) -> Check | None:
    """A share of samples that are lost in a view; None if it may be within the limit."""
    wrong, samples = view.wrong or 0, view.samples
    # The worst of so many units: each of them has its part of the error rate.
    lower, upper = binomial_bounds(wrong, samples, 1 - (1 - confidence) / view.units)
    if wrong < limit * samples:
        return None
    text = (
        f"output {output.name!r}: {_told(view)}. The true share is at least {lower:.2%} "
        f"({confidence:.0%} confidence), limit {limit:.2%}"
    )
    read = view.view == WRONG_SAMPLES or (output.task.kind in _NUMBERS and not output.is_unknown)
    read &= view.unit != FLAT
    failed = lower > limit and read
    if not failed:
        text += _question(output, view)
    return Check(
        *(view.view, output.name, view.loss, lower, upper, limit),
        Verdict.FAIL if failed else Verdict.INCONCLUSIVE,
        text,
        min(1.0, binomial_p(wrong, samples, limit) * view.units) if failed else None,
    )


_NUMBERS = frozenset({Kind.REGRESSION, Kind.RECONSTRUCTION})


def _told(view: View) -> str:
    """What is lost in some samples, in words."""
    count = f"{view.wrong:,} of {view.samples:,}"
    if view.view == NEAR_END:
        return (
            f"all values are within {NEAR:.10g} of {view.unit}, and {count} samples have an error "
            f"of more than {WRONG:.10g} of their distance from it"
        )
    if view.unit == FLAT:
        return f"in {count} samples rounding is more than {WRONG:.10g} of the steps within them"
    return (
        f"in {count} samples {view.unit} is off by more than {WRONG:.10g} of its standard deviation"
    )


def _question(output: OutputDrift, view: View) -> str:
    """For whom it matters, and how to say that it does not."""
    reader = _READERS.get("between_places" if view.unit == FLAT else view.view)
    if reader is None:
        return ""
    return f". This matters if {reader}; if not, add --budget {output.name}.{view.view}=none"


def outputs_checks(outputs: Sequence[OutputDrift], budget: DriftBudget) -> list[Check]:
    """The check of outputs of one shape beside one another: the pair that loses most."""
    shaped = [
        output
        for output in outputs
        if output.views and budget.for_output(output.name).between_outputs is not None
    ][:_MOST_OUTPUTS]
    found: list[tuple[OutputDrift, View]] = []
    for one, other in combinations(shaped, 2):
        both = [view for each in (one, other) for view in each.views]
        own = max((view.loss for view in both if view.view == BETWEEN_SAMPLES), default=0.0)
        rounding = math.hypot(*(max(v.rounding for v in each.views) for each in (one, other)))
        tables = tables_of(difference(one.totals.evidence, other.totals.evidence))
        for view in views_of(tables):
            if view.view == BETWEEN_SAMPLES and view.loss > own:
                pair = f"less output {other.name!r}" + (f", {view.unit}" if view.unit else "")
                pooled = replace(view, view=BETWEEN_OUTPUTS, unit=pair, rounding=rounding)
                found.append((one, pooled))
    if not found:
        return []
    worst = max(found, key=lambda each: each[1].loss)
    limits = budget.for_output(worst[0].name)
    return [_pooled(*worst, limits.between_outputs or 0.0, limits.rel_l2)]
