"""Checks of decisions: how many change, and whether a class is lost that is too rare to show."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfmp.converters.drift import (
    BOXES,
    EQUALITY,
    MILLION,
    MOST_CLASSES,
    SUMS,
    WHOLE,
    Clustered,
    Decisions,
    DriftBudget,
    Kind,
    OutputDrift,
    fewest_samples,
    values_of,
)
from tfmp.converters.drift.verdict.check import (
    Check,
    Verdict,
    advice,
    against,
    bound_text,
)

# Classes that a text names.
_NAMED = 3


def decision_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of what follows from one output."""
    if output.samples == 0:
        return []
    checks: list[Check] = []
    if output.decision is not None:
        counted = output.decisions
        if counted is None or not counted.samples:
            if output.decision == BOXES and output.totals.values:
                return []  # no detection on either side
            counted = _of_flips(output)
        found = class_checks(output, counted, budget)
        if budget.flip_rate is not None:
            found = [_rate(output, counted, budget, budget.flip_rate), *found]
        checks += map(_amounts, found) if _are_amounts(output, counted) else found
    checks += _fit(output)
    unmatched = output.totals.unmatched
    if unmatched.changed and budget.flip_rate is not None:
        checks.append(_unmatched(output, unmatched, budget, budget.flip_rate))
    return checks


# Integers of this many values may be amounts, if this share of the changes is to a neighbour:
# what is added up may be off by two.
_AMOUNTS, _NEAR = 10, 0.95


def _are_amounts(output: OutputDrift, counted: Decisions) -> bool:
    """Whether undeclared integers look like amounts: those that change go to a neighbour."""
    several = counted.classes.overfull or len(values_of(counted.classes.rows)) >= _AMOUNTS
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


def _of_flips(output: OutputDrift) -> Decisions:
    """One decision for each sample, as reports of before decisions were counted have it."""
    flips, samples = output.flips or 0, output.samples
    return Decisions(samples, samples, flips, flips, flips, flips, samples, flips, flips, flips)


def clustered(counted: Decisions, repeated: float) -> Clustered:
    """The changes among decisions that come in clusters: a sample's stand and fall together.

    Args:
        counted: the decisions and the changes among them.
        repeated: how often a sample occurs on average.
    """
    return Clustered(
        counted.samples,
        counted.decisions,
        counted.changed,
        counted.changed_sq,
        counted.changed_decisions,
        counted.decisions_sq,
        repeated,
    )


def only_firm(counted: Decisions) -> Decisions:
    """The decisions with only those changes that were no ties."""
    return replace(
        counted,
        changed=counted.firm,
        changed_sq=counted.firm_sq,
        changed_decisions=counted.firm_decisions,
    )


def _rate(output: OutputDrift, counted: Decisions, budget: DriftBudget, limit: float) -> Check:
    """Whether more decisions change than the budget allows, ties among them or not."""
    repeated = output.totals.rows.repeated
    every = clustered(counted, repeated)
    firm = clustered(only_firm(counted), repeated)
    lower, upper = firm.lower(budget.confidence), every.upper(budget.confidence)
    verdict = against(lower, upper, limit)
    single = counted.decisions == counted.samples and output.decision != BOXES
    where = f"output {output.name!r}"
    if single:
        what = "differ" if output.decision == EQUALITY else "flip"
        text = f"{where}: {counted.changed:,} of {counted.samples:,} samples {what}"
        text += f" ({round(every.distinct):,} are distinct)" if repeated > 1 else ""
    else:
        text = (
            f"{where}: {counted.changed:,} of {counted.decisions:,} {_noun(output)} change "
            f"({every.rate:.2%}, on {counted.changed_samples:,} of {counted.samples:,} samples)"
        )
    ties = counted.changed - counted.firm
    if ties:
        text += f", {ties:,} of them {'a tie' if ties == 1 else 'ties'} in the reference"
    text += f"; the true rate is at {bound_text(verdict, lower, upper, budget)}"
    if verdict is Verdict.INCONCLUSIVE:
        without = firm.upper(budget.confidence)
        with_ties = every.upper(budget.confidence, as_seen=True)
        if max(without, with_ties) <= limit:
            verdict, upper = Verdict.PASS, max(without, with_ties)
            text += f", at most {without:.2%} without ties, and at most {with_ties:.2%} if no "
            text += "sample has more ties than those that were seen"
    text += f", budget {limit:.2%}"
    if verdict is Verdict.INCONCLUSIVE:
        guess = output.known is None and output.rel_l2 is not None  # that it decides at all
        if without <= limit:
            text += ". Only ties are over the budget, which no rounding could keep"
            text += _allowed(output, every, budget)
            verdict = Verdict.PASS if guess else verdict  # distances say the rest
        elif firm.rate <= limit < every.rate and not guess:
            text += ". Ties take it over the budget, so more samples will not decide"
            text += _allowed(output, every, budget)
        else:
            text += "" if single else f". The {_noun(output)} of a sample count together"
            text += _advice(every, firm, budget, limit)
    p = firm.p_over(limit)
    return Check("flip_rate", output.name, every.rate, lower, upper, limit, verdict, text, p)


# Labels, or another limit, decide about ties up to this rate.
_SOME = 0.1


def _allowed(output: OutputDrift, rate: Clustered, budget: DriftBudget) -> str:
    """What a user may do about ties, with the smallest limit of two digits that keeps them."""
    upper = rate.upper(budget.confidence)
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


def _advice(every: Clustered, firm: Clustered, budget: DriftBudget, limit: float) -> str:
    """How many samples would decide, at this rate and clustering."""
    passing = every if every.rate <= limit else firm  # too many ties pass where nobody decides

    def decides(count: int) -> bool:
        p = min(_grown(passing, count).p_under(limit), _grown(firm, count).p_over(limit))
        return p <= 1 - budget.confidence

    return advice(fewest_samples(decides, every.samples), "rate")


def _grown(rate: Clustered, count: int) -> Clustered:
    """The rate, had it been seen on another number of samples."""
    more = count / rate.samples
    return Clustered(
        count,
        round(rate.decisions * more),
        round(rate.changed * more),
        round(rate.changed_sq * more),
        round(rate.changed_decisions * more),
        round(rate.decisions_sq * more),
        rate.repeated,
    )


@dataclass(frozen=True)
class _ClassTest:
    """Decisions for one class that may be lost or new.

    Attributes:
        name: the class.
        role: `_LOST`, `_NEW` or `_GONE`.
        found: the decisions, and those that changed.
        limit: share of them that may change.
    """

    name: str
    role: str
    found: Clustered
    limit: float

    @property
    def p(self) -> float:
        """The p-value of the hypothesis that the limit is kept."""
        return self.found.p_over(self.limit)


def class_checks(output: OutputDrift, counted: Decisions, budget: DriftBudget) -> list[Check]:
    """Whether some class is lost, or given to others, far more often than by chance."""
    limit = budget.class_flip_rate
    if limit is None or not counted.classes.rows:
        return []
    tests = list(_class_tests(counted, limit, output.totals.rows.repeated))
    alpha = 1 - budget.confidence
    testable = _testable([(test.found.samples, test.limit) for test in tests], alpha)
    suspects = sorted(
        ((test.p * testable, test) for test in tests if test.found.rate > test.limit),
        key=lambda suspect: (suspect[0], suspect[1].limit),
    )
    bad = [test for p, test in suspects if p <= alpha]
    p = min(1.0, suspects[0][0]) if suspects else 1.0
    where = f"output {output.name!r}: "
    if not bad:
        seen = len(counted.classes.rows) or f"more than {MOST_CLASSES:,}"
        text = (
            f"{where}no class changes beyond doubt in more than {limit:.0%} of its decisions "
            f"({seen} seen)"
        )
        highest = max((test.found.rate for test in tests), default=0.0)
        return [
            Check("class_flip_rate", output.name, highest, None, None, limit, Verdict.PASS, text, p)
        ]
    worst = bad[0]
    told = "; ".join(map(_told, bad[:_NAMED]))
    more = f"; {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else ""
    text = f"{where}{told}{more}; a class may change in at most {worst.limit:.0%} of its decisions"
    lower = worst.found.lower(1 - alpha / testable)
    return [
        Check(
            *("class_flip_rate", output.name, worst.found.rate, lower, None, worst.limit),
            Verdict.FAIL,
            text,
            p,
        )
    ]


_LOST, _NEW, _GONE = "lost", "new", "gone"


def _told(test: _ClassTest) -> str:
    """What happens to a class, in words."""
    found = test.found
    if test.role == _GONE:
        return (
            f"class {test.name!r}: gone from {found.changed:,} of the {found.samples:,} samples "
            "that hold it"
        )
    return (
        f"class {test.name!r}: {found.changed:,} of {found.decisions:,} decisions are {test.role} "
        f"({found.samples:,} samples)"
    )


def _class_tests(counted: Decisions, limit: float, repeated: float) -> Iterator[_ClassTest]:
    """Each class with decisions of the reference that are lost, and with those that are new.

    Where samples hold many
    decisions, small objects do not count among large ones: so there is also the number of samples
    that a class is gone from.
    """
    for name, row in counted.classes.rows.items():
        for role, sums in ((_LOST, row[: len(SUMS)]), (_NEW, row[len(SUMS) :])):
            found, gone = _found(sums, repeated)
            if found.decisions:
                yield _ClassTest(name, role, found, limit)
            if role == _LOST and found.decisions > found.samples:
                yield _ClassTest(name, _GONE, gone, limit)


def _found(sums: np.ndarray, repeated: float) -> tuple[Clustered, Clustered]:
    """A class's decisions, and the samples that it is gone from."""
    samples, decisions, changed, changed_sq, by_decisions, decisions_sq, gone = map(int, sums)
    return (
        Clustered(*(samples, decisions, changed, changed_sq, by_decisions, decisions_sq), repeated),
        Clustered(samples, samples, gone, gone, gone, samples, repeated),
    )


def _testable(tests: Sequence[tuple[float, float]], alpha: float) -> int:
    """How many classes could fail at all; the others cost no confidence (Tarone 1990).

    A class of n samples that are all lost has a p-value of limit ** n.

    Args:
        tests: for each class its samples and its limit.
        alpha: the error rate of all.
    """
    samples, limits = np.array(tests, float).reshape(-1, 2).T
    least = np.sort(np.where(limits > 0, limits**samples, 0.0))
    for count in range(1, len(least) + 1):
        if np.count_nonzero(least <= alpha / count) <= count:
            return count
    return max(1, len(least))


# Mean of 1 - intersection over union, and mean error of scores, that detections may have together:
# FP16 moves a corner by a pixel in a thousand, and a score by 0.001.
_GAP, _SCORE_ERROR = 0.1, 0.02


def _fit(output: OutputDrift) -> list[Check]:
    """Whether all detections are a little wrong together, which no single one of them shows."""
    fit = output.totals.fit
    checks = []
    for name, total, limit, what in (
        ("box_gap", fit.gap, _GAP, "boxes miss their counterparts by"),
        ("score_error", fit.score_error, _SCORE_ERROR, "scores are off by"),
    ):
        if not fit.matched:
            continue
        mean = total / MILLION / fit.matched
        verdict = Verdict.PASS if mean <= limit else Verdict.FAIL
        text = (
            f"output {output.name!r}: {what} {mean:.3g} on average over {fit.matched:,} "
            f"detections, limit {limit:.3g}"
        )
        checks.append(Check(name, output.name, mean, None, None, limit, verdict, text))
    return checks


def _unmatched(output: OutputDrift, counted: Decisions, budget: DriftBudget, limit: float) -> Check:
    """Whether rows are missing or new, in outputs whose length depends on the data."""
    # Only samples that differ were counted; the others have as many rows on average.
    more = output.samples / counted.samples
    rows = Clustered(
        output.samples,
        round(counted.decisions * more),
        counted.changed,
        counted.changed_sq,
        counted.changed_decisions,
        round(counted.decisions_sq * more),
        output.totals.rows.repeated,
    )
    lower, upper = rows.bounds(budget.confidence)
    verdict = against(lower, upper, limit)
    text = (
        f"output {output.name!r}: {counted.changed:,} rows exist on one side only (on "
        f"{counted.changed_samples:,} of {output.samples:,} samples); the true rate is at "
        f"{bound_text(verdict, lower, upper, budget)}, budget {limit:.2%}"
    )
    p = rows.p_over(limit)
    return Check("row_rate", output.name, rows.rate, lower, upper, limit, verdict, text, p)
