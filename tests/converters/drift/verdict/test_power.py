"""The samples that a verdict needs are the samples with which it comes."""

import numpy as np
import pytest

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.compare import Comparison
from tfmp.converters.drift.verdict.check import Verdict, against
from tfmp.converters.drift.verdict.judgement import judge
from tfmp.converters.drift.verdict.power import (
    Outlook,
    accuracy_outlook,
    flip_outlook,
)
from tfmp.converters.shared.tensors import TensorSpec

BUDGET = DriftBudget()
SPEC = TensorSpec("logits", (None, 3), "float32")


def judged(samples: int, lost: int, gained: int = 0, labelled: bool = False) -> dict[str, Verdict]:
    """The verdicts on a classifier that changes these answers, of each check by itself."""
    reference = np.tile(np.float32([3, 1, 0]), (samples, 1))
    labels = np.zeros(samples, int)
    labels[lost : lost + gained] = 1
    candidate = reference.copy()
    candidate[: lost + gained] = [1, 3, 0]
    comparison = Comparison("c", [SPEC], [SPEC])
    keys = np.arange(samples, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    comparison.update(
        {"logits": reference}, {"logits": candidate}, labels if labelled else None, keys
    )
    found = judge(comparison.outputs(), comparison.labels(), BUDGET)
    return {
        check.name: against(check.lower, check.upper, check.limit)
        for check in found.checks
        if check.lower is not None and check.upper is not None and check.limit is not None
    }


@pytest.fixture(scope="module")
def flips() -> Outlook:
    return flip_outlook(BUDGET, 0.01, samples=500)


@pytest.fixture(scope="module")
def answers() -> Outlook:
    return accuracy_outlook(BUDGET, 0.01, samples=500)


class TestFlips:
    def test_numbers_of_the_tables_of_attribute_sampling(self, flips: Outlook) -> None:
        """At 95 % and a tolerable rate of 1 %, as auditors use them."""
        assert [seen.passes_from for seen in flips.seen] == [299, 473, 628, 1049]

    def test_the_judge_agrees_to_the_sample(self, flips: Outlook) -> None:
        for seen in flips.seen:
            assert seen.passes_from is not None
            assert judged(seen.passes_from, seen.lost)["flip_rate"] is Verdict.PASS
            assert judged(seen.passes_from - 1, seen.lost)["flip_rate"] is Verdict.INCONCLUSIVE
        for seen in flips.seen[2:]:
            assert seen.fails_up_to is not None
            assert judged(seen.fails_up_to, seen.lost)["flip_rate"] is Verdict.FAIL
            assert judged(seen.fails_up_to + 1, seen.lost)["flip_rate"] is Verdict.INCONCLUSIVE
        assert flips.passes_with is not None
        assert flips.fails_with is not None
        for lost, verdict in (
            (flips.passes_with, Verdict.PASS),
            (flips.passes_with + 1, Verdict.INCONCLUSIVE),
            (flips.fails_with - 1, Verdict.INCONCLUSIVE),
            (flips.fails_with, Verdict.FAIL),
        ):
            assert judged(500, lost)["flip_rate"] is verdict

    def test_a_wide_limit_still_needs_the_smallest_number_of_samples(self) -> None:
        outlook = flip_outlook(BUDGET, 0.9, samples=59)
        assert outlook.seen[0].passes_from == BUDGET.min_samples

    def test_too_few_samples_are_never_a_pass(self) -> None:
        outlook = flip_outlook(BUDGET, 0.2, samples=58)
        assert outlook.passes_with is None
        assert outlook.fails_with is not None


class TestAccuracy:
    def test_the_judge_agrees_to_the_sample(self, answers: Outlook) -> None:
        for seen in answers.seen:
            assert seen.passes_from is not None
            for count, verdict in (
                (seen.passes_from, Verdict.PASS),
                (seen.passes_from - 1, Verdict.INCONCLUSIVE),
            ):
                assert judged(count, seen.lost, seen.gained, True)["accuracy_drop"] is verdict
        failing = answers.seen[3]
        assert failing.fails_up_to is not None
        assert judged(failing.fails_up_to, 5, 0, True)["accuracy_drop"] is Verdict.FAIL
        assert judged(failing.fails_up_to + 1, 5, 0, True)["accuracy_drop"] is not Verdict.FAIL
