"""Numbers that differ and say the same: angles a turn apart, and quaternions of either sign."""

from dataclasses import replace

import numpy as np

from tfmp.converters.drift.tasks import Kind, Task


def aligned(
    reference: np.ndarray, candidate: np.ndarray, task: Task
) -> tuple[np.ndarray, np.ndarray]:
    """Both sides, the candidate's answers written as near to the reference's as they can be.

    Args:
        reference: values, batch first.
        candidate: values of the same shape.
        task: of kind angle, with its period, or quaternion, with the axis of the four numbers. With
            columns, it is about those alone.
    """
    if task.columns and reference.ndim > 1:
        places = (..., list(task.columns))
        candidate = candidate.copy()
        one, other = (np.moveaxis(side, task.axis, -1) for side in (reference, candidate))
        whole = replace(task, axis=-1, columns=())
        other[places] = aligned(one[places], other[places], whole)[1]
        return reference, candidate
    with np.errstate(invalid="ignore"):
        if task.kind is Kind.ANGLE:
            turns = np.rint((candidate.astype(np.float64) - reference) / task.period)
            return reference, (candidate - turns * task.period).astype(candidate.dtype)
        if reference.ndim < 2:
            return reference, candidate
        product = (reference * candidate).sum(axis=task.axis, keepdims=True)
        return reference, np.where(product < 0, -candidate, candidate)
