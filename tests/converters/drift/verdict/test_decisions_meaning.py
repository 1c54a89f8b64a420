"""What an output may mean besides: scores of classes, and amounts."""

import numpy as np
from judged_distances import OutputAccumulator

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputDrift
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.verdict.decisions import meaning_checks

GENERATOR = np.random.default_rng(0)
BUDGET = DriftBudget()


def drift(reference: np.ndarray, candidate: np.ndarray, task: Task | None = None) -> OutputDrift:
    accumulator = OutputAccumulator("y", task=task)
    accumulator.update(reference, candidate, np.arange(len(reference), dtype=np.uint64))
    return accumulator.result(task)


def one_hot(classes: np.ndarray) -> np.ndarray:
    return np.eye(6, dtype=np.float32)[classes] * 6


class TestUnknownMeaning:
    CLASSES = GENERATOR.integers(0, 6, 500)
    NOISE = GENERATOR.standard_normal((500, 6)).astype(np.float32)

    def drift(self, changed: int, offset: float = 300.0, task: Task | None = None) -> OutputDrift:
        classes = self.CLASSES.copy()
        classes[:changed] = (classes[:changed] + 1) % 6
        noise = self.NOISE + np.float32(offset)
        return drift(noise + one_hot(self.CLASSES), noise + one_hot(classes), task)

    def test_scores_that_would_fail_ask_for_a_declaration(self):
        (doubt,) = meaning_checks(self.drift(25), BUDGET)
        assert (doubt.name, doubt.verdict) == ("meaning", "INCONCLUSIVE")
        assert "Declare it: --task y=classification" in doubt.text
        assert meaning_checks(self.drift(0), BUDGET) == []
        assert meaning_checks(self.drift(25, task=Task(Kind.REGRESSION)), BUDGET) == []
