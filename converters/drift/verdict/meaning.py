"""Checks of meaning: whether an output would fail if it meant something else than it seems to."""

from tfmp.converters.drift import DECLARED, DriftBudget, Kind, OutputDrift, reads_ratios
from tfmp.converters.drift.verdict.check import Check, Verdict, doubt
from tfmp.converters.drift.verdict.decisions import class_checks

# Of five classes, one may be another; of ten that are shuffled behind the first, two are.
_TOP_K = 0.8

# Error of a share of a whole, relative to its own size.
_RATIO = 0.1


def meaning_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's other meanings; none where it is declared."""
    if budget.flip_rate is None or output.samples == 0:
        return []
    if output.decision is None or (output.known is None and output.rel_l2 is not None):
        return _guessed(output, budget, budget.flip_rate)
    return [*_first_few(output), *_read_as_ratios(output, budget.near_end)]


def _guessed(output: OutputDrift, budget: DriftBudget, limit: float) -> list[Check]:
    """Whether an output of unknown meaning would fail if it held scores of classes."""
    counted = output.totals.argmax
    unclear = output.task.kind is Kind.OTHER or (
        output.task.kind is Kind.MULTILABEL and output.known is None
    )
    if not (unclear and counted.samples):
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
        f"scores of classes, {what}. "
    )
    text += (
        f"Declare it: --task {output.name}=classification, or regression, embedding or other if "
        "its values are no scores"
    )
    return [doubt("meaning", output.name, text, firm.rate)]


def _first_few(output: OutputDrift) -> list[Check]:
    """Whether classes behind the best one are others, where nobody says that only it counts."""
    agreement, known = output.top_k_agreement, output.known
    if agreement is None or agreement >= _TOP_K:
        return []
    if known is not None and known.why == DECLARED:
        return []
    text = (
        f"output {output.name!r}: the reference's five best classes are among the candidate's five "
        f"best in {agreement:.0%} of all cases. If more than the best one is used, that is lost; "
        f"if only the best one is, declare --task {output.name}=classification"
    )
    return [doubt("top_k", output.name, text, agreement)]


def _read_as_ratios(output: OutputDrift, limit: float | None) -> list[Check]:
    """Whether small probabilities are right where the model's loss reads them as ratios.

    Where each probability is off by a share d of itself, the divergence is d**2 / 2.
    """
    known, divergence = output.known, output.kl
    if limit is None or divergence is None or not reads_ratios(known):
        return []
    share = (2 * max(divergence, 0.0)) ** 0.5
    if share <= _RATIO:
        return []
    text = (
        f"output {output.name!r}: its probabilities diverge by {divergence:.3g} nats, as if each "
        f"was off by {share:.3g} of its own size, limit {_RATIO:.10g}, and "
        f"{known.why if known else ''}, which reads small ones. If only the largest is used, "
        f"declare --task {output.name}=classification"
    )
    return [doubt("meaning", output.name, text, share)]
