"""The check of meaning: whether an output would fail if it held scores of classes."""

from tfmp.converters.drift import DriftBudget, Kind, OutputDrift
from tfmp.converters.drift.verdict.check import Check, Verdict, doubt
from tfmp.converters.drift.verdict.decisions import class_checks


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
