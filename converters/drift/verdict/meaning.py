"""Checks of meaning: whether an output would fail if it meant something else than it seems to."""

import numpy as np

from tfmp.converters.drift import (
    COMPILED,
    NAMED,
    DriftBudget,
    Kind,
    OutputDrift,
    names_ids,
    reads_ratios,
    total,
)
from tfmp.converters.drift.verdict.check import Check, Verdict, doubt, fault
from tfmp.converters.drift.verdict.decisions import class_checks, clustered, only_firm
from tfmp.converters.drift.verdict.variation import variation_ratio

# An output fails whatever it means if this many times as many decisions change as may, and values
# are off by more than this share of what tells samples apart.
_MANY, _MUCH = 10, 0.1

# Of five classes, one may be another; of ten that are shuffled behind the first, two are.
_TOP_K = 0.8

# Rows that are trained on one-hot labels add up to 1 within this, on average.
_ONE = 0.02


def meaning_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's other meanings; none where it is declared."""
    if budget.flip_rate is None or output.samples == 0:
        return []
    checks = []
    if output.decision is None or (output.known is None and output.rel_l2 is not None):
        checks += _guessed(output, budget, budget.flip_rate)
    checks += [*_misnamed(output, budget), *_named_by_column(output, budget.flip_rate)]
    checks += _rounded_names(output, budget.flip_rate) or _next_names(output, budget.flip_rate)
    checks += [*_first_few(output), *_one_hot(output, budget, budget.flip_rate)]
    checks += _read_as_ratios(output, budget.slice_rel_l2)
    return checks


def _guessed(output: OutputDrift, budget: DriftBudget, limit: float) -> list[Check]:
    """Whether an output of unknown meaning would fail if it held scores of classes."""
    counted = output.totals.argmax
    unclear = output.task.kind is Kind.OTHER or (
        output.task.kind is Kind.MULTILABEL and output.known is None
    )
    if not (unclear and counted.samples):
        return []
    firm = clustered(only_firm(counted), output.totals.rows.repeated)
    lost = [
        check for check in class_checks(output, counted, budget) if check.verdict is Verdict.FAIL
    ]
    if firm.lower(budget.confidence) <= limit and not lost:
        return []
    what = f"{counted.changed:,} of {counted.decisions:,} decisions would change"
    if lost:
        what += " (" + lost[0].text.partition(": ")[2].partition("; a class may")[0] + ")"
    text = (
        f"output {output.name!r}: no declaration tells what it means, and if its last axis held "
        f"scores of classes, {what}. "
    )
    moved = variation_ratio(output)
    if firm.lower(budget.confidence) > _MANY * limit and moved > _MUCH:
        text += (
            f"As numbers, its values are off by {moved:.3g} of what tells samples apart, so no "
            "declaration helps"
        )
        return [fault("meaning", output.name, text, firm.rate)]
    text += (
        f"Declare it: --task {output.name}=classification, or regression, embedding or other if "
        "its values are no scores"
    )
    return [doubt("meaning", output.name, text, firm.rate)]


def _misnamed(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """Whether an output that only its name calls classes would fail if it held labels."""
    known, labels = output.known, output.totals.zero
    if known is None or not known.why.startswith(NAMED) or known.kind is not Kind.CLASSIFICATION:
        return []
    lost = [
        check for check in class_checks(output, labels, budget) if check.verdict is Verdict.FAIL
    ]
    if not lost or output.totals.argmax.samples != output.samples:
        return []
    found = lost[0].text.partition(": ")[2].partition("; a class may")[0]
    text = (
        f"output {output.name!r}: its name says that it holds classes, and if it held a logit for "
        f"each label, the budget would be broken ({found}). Declare which it is: --task "
        f"{output.name}=classification or --task {output.name}=multilabel"
    )
    return [doubt("meaning", output.name, text)]


def _named_by_column(output: OutputDrift, limit: float) -> list[Check]:
    """Whether a column of whole numbers among others would fail if it held names of classes."""
    totals = output.totals
    if output.known is not None or output.task.kind is not Kind.OTHER or not totals.fractions:
        return []
    fractions, steps = np.array(totals.fractions), np.array(totals.steps)
    each = totals.values / len(steps)
    rates = np.where((fractions == 0) & fractions.any(), steps / each, 0.0)
    worst = int(rates.argmax())
    if rates[worst] <= limit:
        return []
    text = (
        f"output {output.name!r}: column {worst} of {len(steps)} holds whole numbers, and "
        f"{steps[worst]:,} of {each:,.0f} are others. If they are names of classes, that is over "
        f"the budget of {limit:.2%}; if they are amounts, declare --task {output.name}=regression"
    )
    return [doubt("meaning", output.name, text, float(rates[worst]))]


def _rounded_names(output: OutputDrift, limit: float) -> list[Check]:
    """Whether values that are all whole numbers would fail if they were names."""
    totals = output.totals
    if output.known is not None or output.task.kind is not Kind.OTHER or not totals.renamed:
        return []
    rate = totals.renamed / totals.values
    if rate <= limit:
        return []
    text = (
        f"output {output.name!r}: all of its values are whole numbers, and {totals.renamed:,} of "
        f"{totals.values:,} are others, as FP16 has not all numbers above 2,048"
    )
    if names_ids(output.name):
        return [fault("meaning", output.name, f"{text}. Its name says that they name something")]
    text += f". If they are amounts, declare --task {output.name}=regression, or ids if they name"
    return [doubt("meaning", output.name, text + " something", rate)]


# Numbers of a sample that may be names or counts; more are a picture or a signal.
_FEW = 16


def _next_names(output: OutputDrift, limit: float) -> list[Check]:
    """Whether whole numbers that become the next ones would fail if they were names.

    Errors are all 0 or 1 where their squares add up to what they do themselves.
    """
    totals = output.totals
    few = totals.values <= _FEW * output.samples and output.task.kind is Kind.OTHER
    if output.known is not None or not (few and totals.whole) or totals.nonfinite:
        return []
    changed = total(totals.error_abs)
    rate = changed / max(1, totals.values)
    if changed != total(totals.error_sq) or rate <= limit:
        return []
    text = (
        f"output {output.name!r}: all of its values are whole numbers, and {changed:,.0f} of "
        f"{totals.values:,} are the next ones. If they name something, that is over the budget of "
        f"{limit:.2%}; if they are amounts, declare --task {output.name}=regression"
    )
    return [doubt("meaning", output.name, text, rate)]


def _first_few(output: OutputDrift) -> list[Check]:
    """Whether classes behind the best one are others, where nobody says that only it counts."""
    agreement, known = output.top_k_agreement, output.known
    if agreement is None or agreement >= _TOP_K:
        return []
    if known is not None and not known.why.startswith((COMPILED, NAMED)):
        return []
    text = (
        f"output {output.name!r}: the reference's five best classes are among the candidate's five "
        f"best in {agreement:.0%} of all cases. If more than the best one is used, that is lost; "
        f"if only the best one is, declare --task {output.name}=classification"
    )
    return [doubt("top_k", output.name, text, agreement)]


def _one_hot(output: OutputDrift, budget: DriftBudget, limit: float) -> list[Check]:
    """Whether numbers by the model's loss may be scores: labels of one-hot rows fit it, too."""
    known, counted, slices = output.known, output.totals.argmax, output.totals.slices
    by_loss = known is not None and known.kind is Kind.REGRESSION and known.why.startswith(COMPILED)
    if not (by_loss and counted.samples and slices.count > 2):
        return []
    if abs(float(slices.reference_sum.sum()) / counted.samples - 1) > _ONE:
        return []
    every = clustered(counted, output.totals.rows.repeated)
    if every.lower(budget.confidence) <= limit:
        return []
    text = (
        f"output {output.name!r}: its rows add up to 1, so they may be scores of classes although "
        f"{known.why if known else ''}, and {counted.changed:,} of {counted.decisions:,} decisions "
        f"would change. Declare it: --task {output.name}=classification, or regression if nobody "
        "takes the largest"
    )
    return [doubt("meaning", output.name, text, every.rate)]


def _read_as_ratios(output: OutputDrift, limit: float | None) -> list[Check]:
    """Whether small probabilities are right where the model's loss reads them as ratios.

    Where each probability is off by a share d of itself, the divergence is d**2 / 2.
    """
    known, divergence = output.known, output.kl
    if limit is None or divergence is None or not reads_ratios(known):
        return []
    share = (2 * max(divergence, 0.0)) ** 0.5
    if share <= limit:
        return []
    text = (
        f"output {output.name!r}: its probabilities diverge by {divergence:.3g} nats, as if each "
        f"was off by {share:.3g} of its own size, budget {limit:.10g}, and "
        f"{known.why if known else ''}, which reads small ones. If only the largest is used, "
        f"declare --task {output.name}=classification"
    )
    return [doubt("meaning", output.name, text, share)]
