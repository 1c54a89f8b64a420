"""Decisions that change: how many, of which classes, ties; and what an output may mean besides."""

import numpy as np
import pytest
from judged_distances import OutputAccumulator

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputDrift
from tfmp.converters.drift.tasks import Task
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.decisions import decision_checks, meaning_checks

GENERATOR = np.random.default_rng(0)


def drift(
    reference: np.ndarray,
    candidate: np.ndarray,
    task: str | None = "classification",
    keys: np.ndarray | None = None,
) -> OutputDrift:
    accumulator = OutputAccumulator("y", task=Task.of(task, "y") if task else None)
    keys = np.arange(len(reference)) if keys is None else keys
    accumulator.update(reference, candidate, keys.astype(np.uint64))
    return accumulator.result()


def check(name: str, found: OutputDrift, budget: DriftBudget | None = None) -> Check | None:
    checks = decision_checks(found, budget or DriftBudget())
    return next((each for each in checks if each.name == name), None)


def scores(classes: np.ndarray, number: int = 6, margin: float = 5.0) -> np.ndarray:
    return np.eye(number, dtype=np.float32)[classes] * np.float32(margin)


TOKENS = GENERATOR.integers(0, 6, (400, 32))


class TestRate:
    def test_tokens_of_a_few_samples(self):
        changed = TOKENS.copy()
        changed[:20] = (changed[:20] + 1) % 6
        found = check("flip_rate", drift(scores(TOKENS), scores(changed)))
        assert found.verdict is Verdict.FAIL
        assert "640 of 12,800 decisions change (5.00%, on 20 of 400 samples)" in found.text
        same = check("flip_rate", drift(*[scores(TOKENS[:, 0])] * 2))
        assert "0 of 400 samples flip; the true rate" in same.text

    def test_ties_do_not_fail_and_do_not_pass(self):
        classes = GENERATOR.integers(0, 6, 500)
        near = scores(classes, margin=0.001)
        found = check("flip_rate", drift(near, np.roll(near, 1, axis=1)))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "500 of them ties in the reference" in found.text
        assert "Without ties, which any rounding changes, it is within the budget" in found.text
        few = check("flip_rate", drift(near[:100], np.roll(near[:100], 1, axis=1)))
        assert few.text.endswith("it is within the budget. Pass --labels")
        once = np.concatenate([np.roll(near[:1], 1, axis=1), near[1:100]])
        assert (
            "1 of them a tie in the reference" in check("flip_rate", drift(near[:100], once)).text
        )


class TestClasses:
    def test_pixels_of_one_sample_are_one_piece_of_evidence(self):
        maps = np.zeros((300, 64), int)
        maps[0, :20] = 1
        gone = np.zeros_like(maps)
        assert check("class_flip_rate", drift(maps, gone, None)).verdict is Verdict.PASS
        maps[:8, :3] = 1
        assert check("class_flip_rate", drift(maps, gone, "ids")).verdict is Verdict.FAIL


@pytest.mark.parametrize(("missing", "verdict"), [(0, Verdict.PASS), (30, Verdict.FAIL)])
def test_rows_that_exist_on_one_side_only(missing, verdict):
    from tfmp.converters.drift.compare import Comparison
    from tfmp.converters.shared.tensors import TensorSpec

    spec = TensorSpec("boxes", (1, None, 3), "float32")
    comparison = Comparison("a.onnx", [spec], [spec])
    for number in range(300):
        rows = GENERATOR.random((1, 4, 3), dtype=np.float32)
        kept = rows[:, : 3 if number < missing else 4]
        comparison.update({"boxes": rows}, {"boxes": kept}, keys=np.array([number], np.uint64))
    (found,) = comparison.outputs()
    if missing:
        rate = check("row_rate", found)
        assert "30 of 1,200 rows are on one side only" in rate.text
        assert rate.measured == 0.025
        assert rate.verdict is verdict
    else:
        assert check("row_rate", found) is None
    assert found.rel_l2 < 1e-6


def test_scores_of_no_known_meaning_that_would_fail_ask_for_a_declaration():
    classes = GENERATOR.integers(0, 6, 500)
    changed = np.where(np.arange(500) < 25, (classes + 1) % 6, classes)
    noise = np.float32(300 + GENERATOR.standard_normal((500, 6)))

    def doubts(received: np.ndarray, task: str | None = None) -> list[Check]:
        found = drift(noise + scores(classes, margin=6), noise + scores(received, margin=6), task)
        return meaning_checks(found, DriftBudget())

    (doubt,) = doubts(changed)
    assert (doubt.name, doubt.verdict) == ("meaning", "INCONCLUSIVE")
    assert "Declare it: --task y=classification" in doubt.text
    assert doubts(classes) == doubts(changed, "regression") == []
