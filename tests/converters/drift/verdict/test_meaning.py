"""What an output may mean besides: scores of classes, lists of the best, amounts, ratios."""

import numpy as np

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputAccumulator, OutputDrift
from tfmp.converters.drift.tasks import COMPILED, Kind, Task
from tfmp.converters.drift.verdict.decisions import decision_checks
from tfmp.converters.drift.verdict.meaning import meaning_checks

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


class TestFirstFew:
    SCORES = GENERATOR.standard_normal((300, 50)).astype(np.float32)
    LOSS = Task(Kind.CLASSIFICATION, why=f"{COMPILED} sparse_categorical_crossentropy")

    def others(self) -> np.ndarray:
        others = GENERATOR.permuted(self.SCORES, axis=1)
        best = self.SCORES.argmax(axis=1)[:, None]
        np.put_along_axis(others, best, np.float32(9), axis=1)
        return others

    def test_others_behind_the_best_are_told(self):
        (doubt,) = meaning_checks(drift(self.SCORES, self.others(), self.LOSS), BUDGET)
        assert (doubt.name, doubt.verdict) == ("top_k", "INCONCLUSIVE")
        rounded = self.SCORES.astype(np.float16).astype(np.float32)
        assert meaning_checks(drift(self.SCORES, rounded, self.LOSS), BUDGET) == []

    def test_a_declaration_says_that_the_best_one_counts(self):
        found = drift(self.SCORES, self.others(), Task(Kind.CLASSIFICATION))
        assert meaning_checks(found, BUDGET) == []


class TestAmounts:
    MINUTES = GENERATOR.integers(5, 60, 1000)

    def verdict(self, changed: np.ndarray, task: Task | None = None) -> set[str]:
        found = drift(self.MINUTES, changed, task)
        return {check.verdict.value for check in decision_checks(found, BUDGET)}

    def test_neighbours_may_be_amounts_unless_they_are_ids(self):
        late = self.MINUTES.copy()
        late[::20] += 1
        assert self.verdict(late) == {"INCONCLUSIVE", "PASS"}
        assert "FAIL" in self.verdict(late, Task(Kind.IDS))
        assert self.verdict(self.MINUTES) == {"PASS"}

    def test_others_are_no_neighbours(self):
        others = self.MINUTES.copy()
        others[::20] += 5
        assert "FAIL" in self.verdict(others)


class TestSmallProbabilities:
    SHARES = np.tile(np.array([[0.9, 0.099, 1e-3]]), (300, 1))

    def checks(self, share: float, loss: str = "kl_divergence"):
        task = Task(Kind.CLASSIFICATION, why=f"{COMPILED} {loss}")
        return meaning_checks(drift(self.SHARES, self.SHARES * [1, 1, share], task), BUDGET)

    def test_they_count_where_the_loss_reads_ratios(self):
        (doubt,) = self.checks(0.0)
        assert (doubt.name, doubt.verdict) == ("meaning", "INCONCLUSIVE")
        assert "nats, as if each was off by 0.13" in doubt.text
        assert doubt.text.endswith("declare --task y=classification")

    def test_they_do_not_where_they_are_nearly_right_or_the_largest_counts(self):
        assert self.checks(0.9) == []
        assert self.checks(0.0, "sparse_categorical_crossentropy") == []
