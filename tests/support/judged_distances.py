"""Distances and views of outputs as they are judged, in tests of single checks."""

import numpy as np

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.exact import merge
from tfmp.converters.drift.metrics import OutputDrift, drift_of
from tfmp.converters.drift.tasks import Task
from tfmp.converters.drift.totals import Totals, measure
from tfmp.converters.drift.verdict.check import Check, Verdict, overall
from tfmp.converters.drift.verdict.closeness import closeness_checks
from tfmp.converters.drift.verdict.lost import lost_checks
from tfmp.converters.drift.verdict.wraps import unless_angles


def half(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(np.float32)


class OutputAccumulator:
    """Collects one output batch by batch."""

    def __init__(self, name: str, task: Task | None = None) -> None:
        self.name, self.task, self.totals = name, task, Totals()

    def update(self, *batch: np.ndarray) -> None:
        reference, candidate, *keys = batch
        self.totals = merge(self.totals, measure(reference, candidate, self.task, *keys))

    def result(self, known: Task | None = None, labels: str | None = None) -> OutputDrift:
        return drift_of(self.name, self.totals, known or self.task, labels)


def drift(
    reference: np.ndarray, candidate: np.ndarray, task: str | None = None, name: str = "y"
) -> OutputDrift:
    known = Task.of(task, name) if task else None
    accumulator = OutputAccumulator(name, task=known)
    keys = np.arange(len(reference), dtype=np.uint64)
    accumulator.update(reference.astype(np.float32), candidate.astype(np.float32), keys)
    return accumulator.result(known)


def checks_of(found: OutputDrift, budget: DriftBudget | None = None) -> list[Check]:
    """All checks of an output's numbers, but for those that pass."""
    limits = (budget or DriftBudget()).for_output(found.name)
    close = [*closeness_checks(found, limits), *lost_checks(found, limits)]
    checks = unless_angles(found, limits, close)
    return [check for check in checks if check.verdict is not Verdict.PASS]


def judged(found: OutputDrift, budget: DriftBudget | None = None) -> Verdict:
    """The verdict on an output's numbers."""
    checks = checks_of(found, budget)
    return overall([check.verdict for check in checks]) if checks else Verdict.PASS


def directions(turn: float) -> tuple[np.ndarray, np.ndarray]:
    """The angle of two components, of which FP16 gives some the other sign near half a turn."""
    generator = np.random.default_rng(1)
    angle = generator.uniform(-np.pi, np.pi, 800)
    angle[:40] = np.pi - 1e-4 * generator.standard_normal(40)
    components = np.stack([np.sin(angle), np.cos(angle)]).astype(np.float32)
    noisy = half(components) + np.float32(2e-4) * generator.standard_normal(components.shape)
    exact, received = (
        np.arctan2(*each)[:, None] * turn / (2 * np.pi) for each in (components, noisy)
    )
    return exact, received
