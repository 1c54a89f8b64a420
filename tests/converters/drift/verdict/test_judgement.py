"""Verdicts: what passes, what fails, what stays open, and the sentences that say why."""

import math
from dataclasses import replace

import numpy as np
import pytest
from judged_distances import OutputAccumulator
from label_runs import compared

from tfmp.converters.drift import with_metrics
from tfmp.converters.drift.budget import VIEWS, DriftBudget
from tfmp.converters.drift.metrics import OutputDrift
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.drift.verdict.judgement import Judgement, judge
from tfmp.converters.shared.errors import InputError


def classifier(samples: int, flips: int = 0, noise: float = 0.0) -> OutputDrift:
    """Class scores of which `flips` samples change their best class."""
    reference = np.random.default_rng(0).random((samples, 4), dtype=np.float32)
    reference[:, 0] += 2
    candidate = reference * (1 + noise)
    candidate[:flips] = np.roll(candidate[:flips], 1, axis=1)
    accumulator = OutputAccumulator("y", task=Task(Kind.CLASSIFICATION))
    accumulator.update(reference * 100, candidate * 100)
    return accumulator.result()


def regression(samples: int = 100, noise: float = 0.0, bad: float | None = None) -> OutputDrift:
    reference = np.random.default_rng(0).standard_normal((samples, 1)).astype(np.float32)
    candidate = reference * (1 + noise)
    if bad is not None:
        candidate[0] = bad
    accumulator = OutputAccumulator("y")
    accumulator.update(reference, candidate)
    return accumulator.result()


LOOSE = DriftBudget(**dict.fromkeys(("rel_l2", "sample_rel_l2", "class_flip_rate", *VIEWS)))


def reason(found: Judgement) -> str:
    (text,) = found.reasons
    return text


class TestFlips:
    def test_299_equal_answers_pass(self) -> None:
        found = judge([classifier(299)], budget=LOOSE)
        assert found.verdict is Verdict.PASS
        assert reason(found) == (
            "output 'y': 0 of 299 samples flip; the true rate is at most 1.00% (95% confidence), "
            "budget 1.00%"
        )

    def test_a_rate_at_the_budget_is_never_decided(self) -> None:
        found = judge([classifier(400, flips=4)], budget=LOOSE)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "so near the budget that more samples will not decide" in reason(found)

    def test_a_budget_without_limits_judges_nothing(self) -> None:
        budget = replace(LOOSE, flip_rate=None)
        found = judge([classifier(100, flips=50)], budget=budget)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert reason(found).startswith("no limit of the budget applies to these outputs")


class TestDistances:
    def test_zeros_in_the_reference_are_explained(self) -> None:
        accumulator = OutputAccumulator("y")
        accumulator.update(np.zeros((60, 3)), np.full((60, 3), 1e-9))
        found = judge([accumulator.result()])
        assert "all zeros here; limit max_abs instead of rel_l2" in found.reasons[0]

    def test_limits_of_an_unknown_output_are_refused(self) -> None:
        budget = DriftBudget(overrides={"z": {"rel_l2": 0.5}})
        with pytest.raises(InputError) as caught:
            judge([regression()], budget=budget)
        assert str(caught.value) == (
            "the budget has limits for output 'z', which the reference does not have; its "
            "outputs: y. Name one of these."
        )


class TestSoundness:
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_one_new_nonfinite_value_fails_whatever_the_budget(self, bad: float) -> None:
        budget = DriftBudget(rel_l2=None, flip_rate=None)
        found = judge([regression(samples=10_000, bad=bad)], budget=budget)
        assert found.verdict is Verdict.FAIL
        assert reason(found) == (
            "output 'y': 1 of 10,000 values are NaN or infinite where the reference has a number"
        )
        blamed = judge([regression(samples=10_000, bad=bad)], budget=budget, nonfinite_inputs=1234)
        assert reason(blamed).endswith("has a number; the data itself holds 1,234 such values")

    def test_nan_on_both_sides_is_left_aside(self) -> None:
        accumulator = OutputAccumulator("y")
        values = np.random.default_rng(0).standard_normal((100, 3))
        values[3, 1] = np.nan
        accumulator.update(values, values)
        assert judge([accumulator.result()]).verdict is Verdict.PASS
        accumulator = OutputAccumulator("y")
        accumulator.update(np.full((100, 3), np.nan), np.full((100, 3), np.nan))
        found = judge([accumulator.result()])
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "no value is finite on both sides, so nothing was compared" in found.reasons[0]

    @pytest.mark.parametrize("dtype", ["float32", "int64"])
    def test_an_output_without_values_is_no_evidence(self, dtype: str) -> None:
        """As of a detector that finds nothing."""
        accumulator = OutputAccumulator("y")
        accumulator.update(np.zeros((0, 4), dtype), np.zeros((0, 4), dtype))
        found = judge([accumulator.result()])
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "it is empty in each sample, so nothing was compared. Give" in found.reasons[0]

    @pytest.mark.parametrize(("rows", "verdict"), [(41, Verdict.PASS), (42, Verdict.INCONCLUSIVE)])
    def test_samples_of_nan_on_both_sides_are_no_evidence(
        self, rows: int, verdict: Verdict
    ) -> None:
        accumulator = OutputAccumulator("y")
        values = np.random.default_rng(0).standard_normal((100, 3))
        values[:rows] = np.nan
        accumulator.update(values, values)
        found = judge([accumulator.result()], budget=DriftBudget(flip_rate=0.1))
        assert found.verdict is verdict
        assert ("58 samples were compared (126 values are NaN" in found.reasons[0]) == (rows == 42)


def test_answers_against_labels_are_judged() -> None:
    labels = np.arange(100) % 2
    answers = np.eye(2, dtype=np.float32)[labels]
    label = with_metrics(compared(labels, answers, 1 - answers))
    found = judge([regression()], [label])
    assert found.verdict is Verdict.FAIL
    assert any("accuracy 100.00% -> 0.00% (100 lost, 0 gained" in text for text in found.reasons)


class TestEvidence:
    def test_fp16_weights_in_fp32_arithmetic_certify_nothing_but_can_fail(self) -> None:
        found = judge([regression()], fp16="weights-only")
        assert found.verdict is Verdict.INCONCLUSIVE
        assert reason(found).startswith("the file was run in FP32 arithmetic with its FP16 weights")
        assert judge([regression()], fp16="native").verdict is Verdict.PASS
        assert judge([regression(bad=math.nan)], fp16="weights-only").verdict is Verdict.FAIL

    def test_synthetic_inputs_certify_nothing_but_can_fail(self) -> None:
        found = judge([regression()], synthetic=True)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert reason(found).startswith("the inputs were synthetic")
        assert judge([regression(bad=math.nan)], synthetic=True).verdict is Verdict.FAIL

    def test_a_candidate_that_did_not_run_fails_with_the_error(self) -> None:
        found = judge([], error="it crashed")
        assert (found.verdict, found.reasons) == (Verdict.FAIL, ("it crashed",))


class TestVerdict:
    def test_exit_statuses(self) -> None:
        assert [verdict.exit_status for verdict in Verdict] == [0, 1, 3]
