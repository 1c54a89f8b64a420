"""Checks of views: what an output loses, for each use that somebody may make of it."""

from collections.abc import Sequence

from tfmp.converters.drift import (
    BETWEEN_OUTPUTS,
    NEAR_END,
    WRONG,
    WRONG_SAMPLES,
    DriftBudget,
    Kind,
    OutputDrift,
    View,
    binomial_bounds,
    difference,
    tables_of,
    views_of,
)
from tfmp.converters.drift.verdict.check import Check, Verdict, number_beside, p_over

# Fewer lost samples are no share.
_FEWEST = 3

# Units of which each is looked at; the worst of more is often wrong by chance.
_FEW = 16

# Outputs of a model that are compared with one another.
_MOST_OUTPUTS = 8

# What is compared in each view, as the subject of a sentence.
_SUBJECTS = {
    "between_samples": "the difference between samples",
    "within_samples": "the variation within a sample",
    "between_columns": "the difference between two columns",
    "between_places": "the difference between neighbouring places",
    BETWEEN_OUTPUTS: "the difference between two outputs",
}

# Differences that nobody may read.
_DIFFERENCES = ("between_columns", "between_places", BETWEEN_OUTPUTS)

# Who reads each view: for whom its loss matters.
_READERS = {
    "between_samples": "ranks or compares samples",
    "within_samples": "reads the shape of a sample",
    "between_columns": "subtracts columns",
    "between_places": "reads steps or gradients",
    BETWEEN_OUTPUTS: "subtracts outputs",
    WRONG_SAMPLES: "reads single samples",
    NEAR_END: "reads the distance from it, such as a risk",
}


def lost_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of all views of one output."""
    checks = (_check(output, view, budget) for view in output.views)
    return [check for check in checks if check is not None]


def _check(output: OutputDrift, view: View, budget: DriftBudget) -> Check | None:
    limit: float | None = getattr(budget, view.view)
    if limit is None:
        return None
    return _pooled(output, view, limit) if view.wrong is None else _share(output, view, budget)


def _pooled(output: OutputDrift, view: View, limit: float) -> Check:
    """A loss of all samples together."""
    loss = view.loss
    where = f"output {output.name!r}" + (f", {view.unit}" if view.unit else "")
    text = (
        f"{where}: {_SUBJECTS[view.view]} is off by {number_beside(loss, limit)} of its standard "
        f"deviation, limit {limit:.10g}"
    )
    if loss <= limit:
        return Check(view.view, output.name, loss, None, None, limit, Verdict.PASS, text)
    verdict = Verdict.FAIL
    if view.is_rounding:
        text += (
            f" (an error of {view.error:.3g} where {view.variation:.3g} is the deviation). FP16 "
            "rounds these numbers that far: compute the end of the model in FP32"
        )
        if output.is_unknown or view.view in _DIFFERENCES:
            verdict = Verdict.INCONCLUSIVE
            text += _question(output, view)
    return Check(view.view, output.name, loss, None, None, limit, verdict, text)


def _share(output: OutputDrift, view: View, budget: DriftBudget) -> Check | None:
    """A share of samples that are lost in a view."""
    limit = float(getattr(budget, view.view))
    wrong, samples = view.wrong or 0, view.samples
    # The worst of so many units: each of them has its part of the error rate.
    confidence = 1 - (1 - budget.confidence) / view.units
    lower, upper = binomial_bounds(wrong, samples, confidence)
    if wrong < max(_FEWEST, limit * samples):
        return None
    text = (
        f"output {output.name!r}: {_told(view)}; the true share is at least {lower:.2%} "
        f"({budget.confidence:.0%} confidence), budget {limit:.2%}"
    )
    if lower <= limit and view.units > _FEW:  # the worst of many, by chance
        return None
    read = view.view == WRONG_SAMPLES or (output.task.kind in _NUMBERS and not output.is_unknown)
    failed = lower > limit and read
    if not failed:
        text += _question(output, view)

    def bounds(each: float) -> tuple[float, float]:
        return binomial_bounds(wrong, samples, each)

    return Check(
        *(view.view, output.name, view.loss, lower, upper, limit),
        Verdict.FAIL if failed else Verdict.INCONCLUSIVE,
        text,
        min(1.0, p_over(bounds, limit) * view.units) if failed else None,
    )


_NUMBERS = frozenset({Kind.REGRESSION, Kind.RECONSTRUCTION})


def _told(view: View) -> str:
    """What is lost in some samples, in words."""
    count = f"{view.wrong:,} of {view.samples:,}"
    if view.view == NEAR_END:
        return (
            f"in {count} samples a distance from {view.unit} is off by more than {WRONG:.10g} of "
            "itself"
        )
    return (
        f"in {count} samples {view.unit} is off by more than {WRONG:.10g} of its standard "
        "deviation, and unlike the others"
    )


def _question(output: OutputDrift, view: View) -> str:
    """Who would lose, and how to say that nobody does."""
    return (
        f". That matters to whoever {_READERS[view.view]}; if nobody does, set --budget "
        f"{output.name}.{view.view}=none"
    )


def outputs_checks(outputs: Sequence[OutputDrift], budget: DriftBudget) -> list[Check]:
    """The check of outputs of one shape beside one another: the pair that loses most."""
    shaped = [
        output
        for output in outputs
        if output.views and budget.for_output(output.name).between_outputs is not None
    ][:_MOST_OUTPUTS]
    worst: tuple[OutputDrift, View] | None = None
    for place, one in enumerate(shaped):
        for other in shaped[place + 1 :]:
            tables = tables_of(difference(one.totals.evidence, other.totals.evidence))
            found = [view for view in views_of(tables) if view.view == "between_samples"]
            for view in found:
                own = max(_pooled_loss(one), _pooled_loss(other))
                if view.loss > own and (worst is None or view.loss > worst[1].loss):
                    pair = f"less output {other.name!r}" + (f", {view.unit}" if view.unit else "")
                    rounding = (_rounding(one) ** 2 + _rounding(other) ** 2) ** 0.5
                    changes = {"view": BETWEEN_OUTPUTS, "unit": pair, "rounding": rounding}
                    worst = one, View(**{**vars(view), **changes})
    if worst is None:
        return []
    limit = budget.for_output(worst[0].name).between_outputs or 0.0
    return [_pooled(*worst, limit)]


def _pooled_loss(output: OutputDrift) -> float:
    losses = [view.loss for view in output.views if view.view == "between_samples"]
    return max(losses, default=0.0)


def _rounding(output: OutputDrift) -> float:
    return max((view.rounding for view in output.views), default=0.0)
