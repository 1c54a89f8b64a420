"""The check of rows of which nobody says whether they are scores of classes.

Of scores the largest counts. Of shares of a whole, such as what an alloy is made of, each does; and
so it does of probabilities that do not add up to 1, whatever their name.
"""

import numpy as np

from tfmp.converters.drift import ADDS_UP, OutputDrift, names_scores, reads_ratios
from tfmp.converters.drift.verdict import (
    CONSTANT,
    FEW_ROUNDINGS,
    VARIATION,
    Check,
    deviation_of,
    doubt,
    number_beside,
)
from tfmp.shared.numerics import FLOAT16, ulp


def share_checks(output: OutputDrift, limit: float) -> list[Check]:
    """The check of one output's columns, were they shares; none where they are right or known.

    A probability is off by a share of itself that is no larger than the noise of two logits, so a
    column that is off by more is no noise, however small it is.
    """
    slices, totals = output.totals.slices, output.totals
    shares = totals.normalized and (output.task.why == ADDS_UP or reads_ratios(output.known))
    independent = totals.unit and not totals.normalized and names_scores(output.task)
    if not (shares or independent) or slices.count < 2:
        return []
    each = max(1.0, totals.values / slices.count)
    error, size = (np.sqrt(sums / each) for sums in (slices.error_sq, slices.reference_sq))
    told = size > FLOAT16.smallest_normal
    told &= error > FEW_ROUNDINGS * ulp(np.maximum(size, FLOAT16.smallest_normal))
    deviation = deviation_of(output, slices)
    scale = np.where(deviation > CONSTANT * size, np.minimum(size, VARIATION * deviation), size)
    errors = np.where(told, error / np.where(told, scale, 1.0), 0.0)
    worst = int(errors.argmax())
    if errors[worst] <= limit:
        return []
    told_off = (
        f"column {worst} of {slices.count} is off by {number_beside(float(errors[worst]), limit)} "
        f"of its own size or variation, budget {limit:.10g}. Declare it: --task {output.name}="
    )
    text = f"output {output.name!r}: its rows add up to 1. If they are shares of a whole and no "
    text += f"scores of classes, {told_off}regression, or classification if only the largest counts"
    if independent:
        text = (
            f"output {output.name!r}: {output.task.why}, but its rows do not add up to 1. If each "
            f"is an answer of its own, {told_off}multilabel, or classification if only the largest "
            "counts"
        )
    return [doubt("meaning", output.name, text, float(errors[worst]))]
