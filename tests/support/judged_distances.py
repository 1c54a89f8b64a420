"""Distances of outputs as they are judged, in tests of single checks."""

import numpy as np

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputAccumulator, OutputDrift
from tfmp.converters.drift.tasks import Task
from tfmp.converters.drift.verdict.check import Verdict, overall
from tfmp.converters.drift.verdict.closeness import closeness_checks


def half(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(np.float32)


def drift(reference: np.ndarray, candidate: np.ndarray, task: str | None = None) -> OutputDrift:
    accumulator = OutputAccumulator("y", task=Task.of(task, "y") if task else None)
    keys = np.arange(len(reference), dtype=np.uint64)
    accumulator.update(reference.astype(np.float32), candidate.astype(np.float32), keys)
    return accumulator.result()


def judged(
    reference: np.ndarray, candidate: np.ndarray, task: str | None = None
) -> tuple[Verdict, str]:
    """The verdict of all distances, and the sentences that decided it."""
    checks = closeness_checks(drift(reference, candidate, task), DriftBudget())
    verdict = overall([check.verdict for check in checks])
    return verdict, "; ".join(check.text for check in checks if check.verdict is verdict)
