"""Checks of answers against labels: how much worse the candidate's metrics may be."""

import math
from dataclasses import dataclass

from tfmp.converters.drift import (
    CUSTOM,
    DriftBudget,
    LabelDrift,
    Metric,
    fewest_samples,
    with_metrics,
)
from tfmp.converters.drift.verdict.check import (
    Check,
    Verdict,
    advice,
    against,
    doubt,
    fault,
)

# How checks of a metric are called where its own name is too long.
_SHORT = {"mean absolute error": "error"}


@dataclass(frozen=True)
class _Limit:
    """A limit on how much worse a metric may be.

    Attributes:
        name: name of the check.
        change: word for being worse, "drop" or "increase".
        worst: largest difference that is allowed, in the metric's own unit.
        budget: the limit in words.
        scale: divides differences, for limits that are relative to the reference.
        percent: whether differences are told in percent.
    """

    name: str
    change: str
    worst: float
    budget: str
    scale: float = 1.0
    percent: bool = False

    def text(self, value: float) -> str:
        """A difference in words."""
        return f"{value / self.scale:.2%}" if self.percent else f"{value / self.scale:.4g}"


def label_checks(label: LabelDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's answers.

    The primary metric has to be proven within its limit. The others fail a candidate only beyond
    doubt: most of them are less certain, and a rare class never shows in enough samples to pass.

    Args:
        label: answers of both models.
        budget: limits of that output.

    Raises:
        InputError: a metric of the user's own fails.
    """
    if label.samples == 0:
        own = label.kind == CUSTOM
        text = f"{label.metric} has a value for none of the samples. Pass others, or leave it out"
        return [doubt(f"{label.metric}_drop", label.output, text)] if own else []
    checks = []
    for metric in with_metrics(label).metrics:
        limit = _limit(metric, budget)
        if limit is not None:
            checks.append(_check(label, metric, limit, budget))
    return checks


def _limit(metric: Metric, budget: DriftBudget) -> _Limit | None:
    slug = metric.name.lower().replace(" ", "_").replace("-", "_")
    name, reference = _SHORT.get(metric.name, slug), abs(metric.reference)
    relative = reference or 1.0, reference > 0
    if metric.lower_is_better:
        if (worst := budget.error_added) is not None:
            return _Limit(f"{name}_added", "increase", worst, f"budget {worst:.4g}")
        if budget.error_increase is None:
            return None
        growth = budget.error_increase * reference
        # An error that is independent of the model's own adds to its square.
        added = (budget.error_floor or 0.0) * (metric.deviation or 0.0)
        allowed = math.hypot(reference, added) - reference
        if allowed > growth:
            told = (
                f"budget {allowed:.4g}, from an added error of {budget.error_floor:.2%} of the "
                f"labels' standard deviation ({metric.deviation:.4g})"
            )
            return _Limit(f"{name}_increase", "increase", allowed, told)
        told = f"budget {budget.error_increase:.2%}"
        return _Limit(f"{name}_increase", "increase", growth, told, *relative)
    if budget.accuracy_ratio is not None:
        share = 1 - budget.accuracy_ratio
        told = f"budget {share:.2%} of the reference"
        return _Limit(f"{name}_ratio", "drop", share * reference, told, *relative)
    if (worst := budget.accuracy_drop) is None:
        return None
    told = f"budget {worst:{'.4g' if metric.own else '.2%'}}"
    return _Limit(f"{name}_drop", "drop", worst, told, percent=not metric.own)


def _check(label: LabelDrift, metric: Metric, limit: _Limit, budget: DriftBudget) -> Check:
    where = f"output {label.output!r}: " if label.output else ""
    if metric.error is not None:
        text = f"{where}{metric.name} is undefined for the candidate: {metric.error.rstrip('.')}"
        return fault(limit.name, label.output, text)
    if not metric.samples:
        return doubt(limit.name, label.output, f"{where}no label is one of the classes")
    if not math.isfinite(metric.reference):
        text = (
            f"{where}{metric.name} of the reference is {metric.reference}: labels or answers are "
            "NaN or infinite. Leave such samples out, or fix their labels"
        )
        return doubt(limit.name, label.output, text)
    lower, upper = metric.bounds(budget.confidence)
    verdict = against(lower, upper, limit.worst)
    if verdict is Verdict.INCONCLUSIVE and not metric.primary:
        verdict = Verdict.PASS
    text = f"{where}{metric.name} {_values(metric)}{_details(label, metric)}"
    # A secondary metric states nothing as long as it does not fail.
    if metric.primary or verdict is Verdict.FAIL:
        side = "least" if verdict is Verdict.FAIL else "most"
        bound = lower if verdict is Verdict.FAIL else upper
        text += (
            f"; the true {limit.change} is at {side} {limit.text(bound)} "
            f"({budget.confidence:.0%} confidence), {limit.budget}"
            if math.isfinite(bound)
            else f"; these samples do not bound the true {limit.change}, {limit.budget}"
        )
    else:
        text += f"; the true {limit.change} is not proven to be over the {limit.budget}"
    if verdict is Verdict.INCONCLUSIVE:
        text += _advice(metric, limit, budget.confidence)
    if verdict is Verdict.INCONCLUSIVE or (verdict is Verdict.FAIL and not metric.reference):
        text += _other_limit(metric, limit)
    return Check(
        name=limit.name,
        output=label.output,
        measured=metric.worse / limit.scale,
        lower=lower / limit.scale,
        upper=upper / limit.scale,
        limit=limit.worst / limit.scale,
        verdict=verdict,
        text=text,
        p=metric.p_over(limit.worst),
    )


def _other_limit(metric: Metric, limit: _Limit) -> str:
    """The limit that may fit a metric of the user's own better, as the last sentence of a text."""
    if metric.own and limit.name.endswith("_increase"):
        return ". For a limit in its own unit, set error_added"
    if metric.own and limit.name.endswith("_drop") and abs(metric.reference) > 1:
        return ". This limit is in its own unit; for one relative to its value, set accuracy_ratio"
    return ""


def _values(metric: Metric) -> str:
    if metric.lower_is_better or metric.own:
        return f"{metric.reference:.4g} -> {metric.candidate:.4g}"
    return f"{metric.reference:.2%} -> {metric.candidate:.2%}"


def _details(label: LabelDrift, metric: Metric) -> str:
    found = []
    if metric.primary and metric.lost is not None:
        found.append(f"{metric.lost:,} lost, {metric.gained:,} gained")
    if metric.resamples:
        found.append(f"{metric.resamples:,} resamples")
    if metric.primary and metric.samples < label.samples:
        found.append(f"{metric.samples:,} distinct samples")
    return f" ({', '.join(found)})" if found else ""


def _advice(metric: Metric, limit: _Limit, confidence: float) -> str:
    if metric.lost is None and metric.standard_error is None:
        return ". It takes more samples to say how certain this is"

    def decides(count: int) -> bool:
        bounds = metric.seen_on(count).bounds(confidence)
        return against(*bounds, limit.worst) is not Verdict.INCONCLUSIVE

    if not math.isfinite(metric.worse):
        return ""
    return advice(fewest_samples(decides, metric.samples), limit.change)
