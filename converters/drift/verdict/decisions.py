"""Checks of decisions: how many change, and whether a class is lost that is too rare to show."""

import math
from dataclasses import replace
from typing import NamedTuple

from tfmp.converters.drift import (
    BOXES,
    EQUALITY,
    MILLION,
    WHOLE,
    Decisions,
    DriftBudget,
    Kind,
    OutputDrift,
    binomial_bounds,
    binomial_p,
    fewest_samples,
)
from tfmp.converters.drift.verdict.check import (
    Check,
    Verdict,
    advice,
    against,
    bound_text,
    doubt,
)

# Classes that a text names.
_NAMED = 3


def decision_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of what follows from one output."""
    if output.samples == 0:
        return []
    checks: list[Check] = []
    counted = output.decisions
    if counted is not None and counted.samples:
        found = class_checks(output, counted, budget)
        if budget.flip_rate is not None:
            found = [_rate(output, counted, budget, budget.flip_rate), *found]
        checks += map(_amounts, found) if _are_amounts(output, counted) else found
    rows = output.totals.unmatched
    if rows.changed and budget.flip_rate is not None:
        # Only samples that differ were counted; the others have as many rows on average.
        more = output.samples / rows.samples
        made = round(rows.decisions * more), round(rows.decisions_sq * more)
        rows = replace(rows, samples=output.samples, decisions=made[0], decisions_sq=made[1])
        checks.append(_rate(output, rows, budget, budget.flip_rate, "row_rate"))
    return checks


# Integers of this many values may be amounts, if this share of the changes is to a neighbour:
# what is added up may be off by two.
_AMOUNTS, _NEAR = 10, 0.95


def _are_amounts(output: OutputDrift, counted: Decisions) -> bool:
    """Whether undeclared integers look like amounts: those that change go to a neighbour."""
    several = counted.classes.overfull or len(counted.classes.rows) >= _AMOUNTS
    unknown = output.known is None or output.known.why == WHOLE
    return unknown and several and counted.near >= _NEAR * counted.changed > 0


def _amounts(check: Check) -> Check:
    """The check of integers that may be amounts."""
    if check.verdict is not Verdict.FAIL:
        return check
    text = (
        f"{check.text}. Nearly all are next to what they were, so they may be amounts: declare "
        f"--task {check.output}=regression, or ids if they are names"
    )
    return replace(check, verdict=Verdict.INCONCLUSIVE, text=text)


def _rate(
    output: OutputDrift,
    counted: Decisions,
    budget: DriftBudget,
    limit: float,
    name: str = "flip_rate",
) -> Check:
    """Whether more decisions change, or more rows are on one side only, than the budget allows.

    Of ties, which no rounding could keep, only those that were seen count, and for a PASS alone.
    """
    repeated, confidence = output.totals.rows.repeated, budget.confidence
    rate, firm = counted.rate, counted.without_ties
    lower, without = firm.bounds(confidence, repeated)
    upper = counted.bounds(confidence, repeated)[1]
    verdict = against(lower, upper, limit)
    rows = name == "row_rate"
    noun = "rows" if rows else _noun(output)
    single = counted.decisions == counted.samples and output.decision != BOXES and not rows
    where = f"output {output.name!r}"
    if single:
        what = "differ" if output.decision == EQUALITY else "flip"
        text = f"{where}: {counted.changed:,} of {counted.samples:,} samples {what}"
        text += f" ({round(counted.samples / repeated):,} are distinct)" if repeated > 1 else ""
    else:
        text = (
            f"{where}: {counted.changed:,} of {counted.decisions:,} {noun} "
            f"{'are on one side only' if rows else 'change'} "
            f"({rate:.2%}, on {counted.changed_samples:,} of {counted.samples:,} samples)"
        )
    ties = counted.changed - counted.firm
    if ties:
        text += f", {ties:,} of them {'a tie' if ties == 1 else 'ties'} in the reference"
    text += f"; the true rate is at {bound_text(verdict, lower, upper, budget)}"
    if verdict is Verdict.INCONCLUSIVE and without <= limit:
        text += f", at most {without:.2%} without ties"
        verdict, upper = (Verdict.PASS, without) if rate <= limit else (verdict, upper)
    text += f", budget {limit:.2%}"
    if verdict is Verdict.INCONCLUSIVE and firm.rate <= limit < rate:
        text += ". Without ties, which any rounding changes, it is within the budget"
        text += _allowed(output, upper)
    elif verdict is Verdict.INCONCLUSIVE:
        text += _advice(counted, repeated, budget, limit)
    p = firm.p_over(limit, repeated)
    return Check(name, output.name, rate, lower, upper, limit, verdict, text, p)


# Labels, or another limit, decide about ties up to this rate.
_SOME = 0.1


def _allowed(output: OutputDrift, upper: float) -> str:
    """What a user may do about ties, with the smallest limit of two digits that keeps them."""
    if upper > _SOME:
        return ". Pass --labels"
    step = 10.0 ** (math.floor(math.log10(upper)) - 1)
    limit = math.ceil(upper / step) * step
    return f". Pass --labels, or allow them: --budget {output.name}.flip_rate={limit:.2g}"


def _noun(output: OutputDrift) -> str:
    return {
        Kind.CLASSIFICATION: "decisions",
        Kind.MULTILABEL: "labels",
        Kind.DETECTION: "detections",
        Kind.TOKENS: "tokens",
    }.get(output.task.kind, "values")


def _advice(counted: Decisions, repeated: float, budget: DriftBudget, limit: float) -> str:
    """How many samples would decide, at these rates."""

    def decides(count: int) -> bool:
        firm = counted.seen_on(count).without_ties
        lower, upper = firm.bounds(budget.confidence, repeated)
        return lower > limit or (upper <= limit and counted.rate <= limit)

    return advice(fewest_samples(decides, counted.samples), "rate")


class _ClassTest(NamedTuple):
    """Decisions for one class that may be lost or new.

    Attributes:
        p: probability of as many changes if the limit were kept.
        name: the class.
        role: "lost" or "new".
        samples: samples that hold it.
        decisions: its decisions in them.
        rate: mean over samples of the share of these that changed.
    """

    p: float
    name: str
    role: str
    samples: int
    decisions: int
    rate: float

    @property
    def text(self) -> str:
        """What happens to the class, in words."""
        if self.decisions == self.samples:
            count = f"{round(self.rate * self.samples):,} of {self.samples:,} decisions"
            return f"class {self.name!r}: {count} are {self.role} ({self.samples:,} samples)"
        return (
            f"class {self.name!r}: {self.rate:.0%} of its decisions are {self.role} in each of "
            f"{self.samples:,} samples, on average"
        )


def class_checks(output: OutputDrift, counted: Decisions, budget: DriftBudget) -> list[Check]:
    """Whether some class is lost, or given to others, far more often than by chance."""
    limit, repeated = budget.class_flip_rate, output.totals.rows.repeated
    if limit is None or not counted.classes.rows:
        return []
    tests = []
    for name, row in counted.classes.rows.items():
        for role, sums in zip(("lost", "new"), row.reshape(2, -1).tolist(), strict=True):
            samples, decisions, changed = sums
            rate = changed / MILLION / max(1, samples)
            if samples:
                p = binomial_p(rate * samples / repeated, samples / repeated, limit)
                tests.append(_ClassTest(p, name, role, samples, decisions, rate))
    alpha = (1 - budget.confidence) / len(tests)
    suspects = sorted(test for test in tests if test.rate > limit)
    bad = [test for test in suspects if test.p <= alpha]
    p = min(1.0, suspects[0].p * len(tests)) if suspects else 1.0
    where = f"output {output.name!r}: "
    if not bad:
        text = (
            f"{where}no class is proven to change in more than {limit:.0%} of its decisions "
            f"({len(counted.classes.rows)} seen)"
        )
        highest = max(test.rate for test in tests)
        return [
            Check("class_flip_rate", output.name, highest, None, None, limit, Verdict.PASS, text, p)
        ]
    told = "; ".join(test.text for test in bad[:_NAMED])
    more = f"; {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else ""
    text = f"{where}{told}{more}; a class may change in at most {limit:.0%} of its decisions"
    worst, trials = bad[0], bad[0].samples / repeated
    lower = binomial_bounds(worst.rate * trials, trials, 1 - alpha)[0]
    facts = worst.rate, lower, None, limit
    return [Check("class_flip_rate", output.name, *facts, Verdict.FAIL, text, p)]


def meaning_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """Whether an output of unknown meaning would fail if it held scores of classes."""
    counted, limit = output.totals.argmax, budget.flip_rate
    if limit is None or output.task.kind is not Kind.OTHER or not counted.samples:
        return []
    firm = counted.without_ties
    lower, _ = firm.bounds(budget.confidence, output.totals.rows.repeated)
    lost = [
        check for check in class_checks(output, counted, budget) if check.verdict is Verdict.FAIL
    ]
    if lower <= limit and not lost:
        return []
    what = f"{counted.changed:,} of {counted.decisions:,} decisions would change"
    if lost:
        what += " (" + lost[0].text.partition(": ")[2].partition("; a class may")[0] + ")"
    text = (
        f"output {output.name!r}: its meaning is not declared, and if its last axis held "
        f"scores of classes, {what}. Declare it: --task {output.name}=classification, or "
        "regression, embedding or other if its values are no scores"
    )
    return [doubt("meaning", output.name, text, firm.rate)]
