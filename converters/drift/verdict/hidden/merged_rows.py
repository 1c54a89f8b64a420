"""Checks of samples that differed and now have one and the same answer.

Vectors of one kind may all become the kind's own, and places of one town the town hall: each is off
by little, and the others still tell the kinds apart.
"""

import numpy as np

from tfmp.converters.drift import MARKS, DriftBudget, Kind, OutputDrift, sample_errors
from tfmp.converters.drift.verdict import Check, doubt, fault

# Three samples with the same bytes are no chance. More than a few are a kind that is lost.
_FEWEST, _MANY = 3, 10

# Sizes and errors that spread by less than this share of their mean are one answer and float32's
# noise; and of outputs that take a few values, many samples have the same.
_SPREAD, _DISTINCT = 1e-3, 0.9

# Off by less than this share of their own size, answers are rounded; and of single numbers, noise
# makes a few the same, which are not off by so many times as much as others.
_ROUNDED, _NOISE = 2.0**-8, 6.0

# Kinds that say something by the numbers themselves, and not by what these decide.
_NUMBERS = frozenset({Kind.OTHER, Kind.REGRESSION, Kind.EMBEDDING, Kind.RECONSTRUCTION})


def merged_row_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The check of one output; none unless samples merge."""
    rows = output.totals.rows
    limited = budget.sample_rel_l2 is not None
    if not limited or output.task.kind not in _NUMBERS or not len(rows):
        return []
    values, (errors, _) = rows.values, sample_errors(output.totals)
    marks = values[:, MARKS]
    if marks.shape[1] < 2:  # a report of before
        return []
    chosen = np.flatnonzero(marks.any(axis=1) & (errors > _ROUNDED))
    if not len(chosen):
        return []
    _, groups, counts = np.unique(marks[chosen], axis=0, return_inverse=True, return_counts=True)
    groups, usual = groups.ravel(), float(np.median(values[:, 0]))
    others, merged = values[~marks.any(axis=1), :2], []
    for group in np.flatnonzero(counts >= _FEWEST):
        members = values[chosen[groups == group], :2]
        distinct = len(np.unique(members, axis=0)) >= _DISTINCT * len(members)
        loud = np.sqrt((members[:, 0] ** 2).mean()) > _NOISE * usual
        known = _is_common(float(marks[chosen[groups == group][0], 1]), others)
        if (
            loud
            and distinct
            and not known
            and (members.std(axis=0) > _SPREAD * members.mean(axis=0)).any()
        ):
            merged.append(members)
    if not merged:
        return []
    largest = max(merged, key=len)
    lost = sum(map(len, merged))
    text = (
        f"output {output.name!r}: {len(largest):,} samples have one and the same answer in the "
        "candidate, and each one of its own in the reference"
    )
    if lost > len(largest):
        text += f", and so have {lost - len(largest):,} others in {len(merged) - 1:,} such groups"
    if len(largest) >= _MANY and (largest[:, 0] != largest[:, 1]).any():
        return [fault("merged_rows", output.name, text, float(lost))]
    text += ". If nobody needs to tell these apart, such as silence, leave them out of the data"
    return [doubt("merged_rows", output.name, text, float(lost))]


def _is_common(size: float, others: np.ndarray) -> bool:
    """Whether other samples share an answer of that size in the reference, such as a default."""
    near = others[np.abs(others[:, 1] - size) <= _ROUNDED * size]
    return bool(np.unique(near, axis=0, return_counts=True)[1].max(initial=0) >= _FEWEST)
