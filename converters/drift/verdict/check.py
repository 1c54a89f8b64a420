"""One question that a verdict rests on, and how bounds and limits answer it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tfmp.converters.drift import DriftBudget


class Verdict(StrEnum):
    """Whether a candidate may ship; `exit_status` is the exit status of a command."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def exit_status(self) -> int:
        """0 PASS, 1 FAIL, 3 INCONCLUSIVE (2 is bad usage or input)."""
        return {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}[self]


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """FAIL if any is FAIL, else INCONCLUSIVE if any is (or the list is empty), else PASS."""
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    return Verdict.PASS if verdicts and set(verdicts) == {Verdict.PASS} else Verdict.INCONCLUSIVE


@dataclass(frozen=True)
class Check:
    """One question that the verdict rests on.

    Attributes:
        name: the quantity that was checked, such as "rel_l2" or "flip_rate".
        output: the output that was checked; "" for the whole run.
        measured: the number that was seen; None for a check without one.
        lower: lower bound of the true number, at the budget's confidence; None without a bound.
        upper: upper bound of the true number.
        limit: the budget's limit; None for a fault that no budget allows.
        verdict: verdict of this check by itself.
        text: the finding in a sentence.
        p: probability of evidence as bad as this one if the true number kept the limit; None for a
            check that makes no statement beyond the samples that were seen.
    """

    name: str
    output: str
    measured: float | None
    lower: float | None
    upper: float | None
    limit: float | None
    verdict: Verdict
    text: str
    p: float | None = None


def fault(name: str, output: str, text: str, count: float | None = None) -> Check:
    """A fault that no budget allows."""
    return Check(name, output, count, None, None, None, Verdict.FAIL, text)


def doubt(name: str, output: str, text: str, measured: float | None = None) -> Check:
    """A reason why nothing is certified."""
    return Check(name, output, measured, None, None, None, Verdict.INCONCLUSIVE, text)


def against(lower: float, upper: float, limit: float) -> Verdict:
    """FAIL if even the lower bound is over the limit, PASS if the upper is not; NaN is neither."""
    if lower > limit:
        return Verdict.FAIL
    return Verdict.PASS if upper <= limit else Verdict.INCONCLUSIVE


def corrected(checks: Sequence[Check], confidence: float) -> list[Check]:
    """The checks, of which those that are no failure among so many become INCONCLUSIVE.

    Each statement that a truth is over its limit is wrong at most as often as the confidence says,
    but many of them are wrong more often. Holm's rule (1979, "A simple sequentially rejective
    multiple test procedure") holds the rate for all of them together. A PASS needs every check, so
    it needs no correction.
    """
    stated = [i for i, check in enumerate(checks) if check.p is not None]
    found = list(checks)
    open_ones = sorted(stated, key=lambda i: checks[i].p or 0.0)
    for done, i in enumerate(open_ones):
        if (checks[i].p or 0.0) <= (1 - confidence) / (len(open_ones) - done):
            continue
        for j in open_ones[done:]:
            if checks[j].verdict is Verdict.FAIL:
                text = (
                    f"{checks[j].text}, which chance may explain among {len(stated)} checks. Give "
                    "more samples"
                )
                found[j] = replace(checks[j], verdict=Verdict.INCONCLUSIVE, text=text)
        break
    return found


def bound_text(verdict: Verdict, lower: float, upper: float, budget: DriftBudget) -> str:
    """The bound that decides, in words: "most 0.99% (95% confidence)"."""
    bound = f"least {lower:.2%}" if verdict is Verdict.FAIL else f"most {upper:.2%}"
    return f"{bound} ({budget.confidence:.0%} confidence)"


def advice(samples: int | None, what: str) -> str:
    """The number of samples that would decide, as the last sentence of a text."""
    if samples is None:
        return f". This {what} is so near the budget that more samples will not decide"
    return f". Give about {samples:,} samples: at this {what} they decide"


def number_beside(measured: float, limit: float) -> str:
    """A number with as many digits as show on which side of its limit it is, and at least three."""
    for digits in range(3, 17):
        text = f"{measured:.{digits}g}"
        shown = float(text)
        if (shown > limit, shown < limit) == (measured > limit, measured < limit):
            return text
    return f"{measured:.17g}"
