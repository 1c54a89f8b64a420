"""Numbers near 1 or 100, of which the distance counts."""

import numpy as np
import pytest
from judged_distances import drift, half, judged

from tfmp.converters.drift import COMPILED, DriftBudget, Kind, Task
from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.drift.verdict.hidden.ceilings import ceiling_checks

GENERATOR = np.random.default_rng(0)
YEARS = np.arange(1, 11)


class TestSurvival:
    """Chances of survival over ten years: risks are low for nine of ten patients."""

    RISK = np.where(
        np.arange(1500) % 10 == 0,
        GENERATOR.uniform(0.05, 0.15, 1500),
        GENERATOR.lognormal(np.log(8e-4), 0.6, 1500),
    )[:, None]
    CURVES = np.exp(-RISK * YEARS)

    def low(self, curve: np.ndarray | float) -> np.ndarray:
        return np.where(self.RISK < 0.02, curve, self.CURVES)

    def test_low_risks_that_are_none(self):
        verdict, text = judged(self.CURVES, half(self.low(1.0)), "regression")
        assert verdict is Verdict.FAIL
        assert "of 10 is off by 1 of its distance from 1, budget 0.1, on the 1,350 of" in text
        assert "samples on which that is below 0.0625, and by 4" in text

    def test_low_risks_that_are_all_the_same(self):
        curve = np.exp(-9.6e-4 * YEARS)
        assert judged(self.CURVES, half(self.low(curve)), "regression")[0] is not Verdict.PASS

    @pytest.mark.parametrize("task", ["regression", None])
    def test_rounding_and_noise(self, task):
        noise = GENERATOR.standard_normal(self.CURVES.shape)
        for candidate in (
            half(self.CURVES),
            self.CURVES * (1 + 1e-3 * noise),
            half(self.CURVES + 1e-3 * self.CURVES.std(axis=0) * noise),
            np.exp(-self.RISK * (1 + 0.02 * noise[:, :1]) * YEARS),
        ):
            assert judged(self.CURVES, candidate, task)[0] is Verdict.PASS

    def test_probabilities_that_may_decide_are_asked_for(self):
        lost = half(self.low(1.0))
        verdict, text = judged(self.CURVES, lost)
        assert verdict is Verdict.INCONCLUSIVE
        assert text.endswith(". If only decisions count, declare --task y=multilabel")
        assert judged(self.CURVES, lost, "multilabel")[0] is Verdict.PASS
        by_loss = Task(Kind.MULTILABEL, why=f"{COMPILED} binary_crossentropy")
        found = drift(self.CURVES, lost, "multilabel")
        (check,) = ceiling_checks(
            type(found)(**{**vars(found), "known": by_loss, "task": by_loss}), DriftBudget()
        )
        assert check.verdict is Verdict.INCONCLUSIVE


class TestUptime:
    """Hours of service in percent: 99 for most machines."""

    OUTAGE = np.where(np.arange(1500) % 16 == 0, 40.0, GENERATOR.lognormal(-0.7, 0.6, 1500))
    PERCENT = 100 - OUTAGE[:, None] * GENERATOR.uniform(0.8, 1.2, (1500, 6))

    def test_most_are_the_same(self):
        verdict, text = judged(self.PERCENT, np.where(self.PERCENT > 95, 99.4, self.PERCENT))
        assert verdict is Verdict.FAIL
        assert "of its distance from 100, budget 0.1, on the 1,40" in text
        assert judged(self.PERCENT, half(self.PERCENT))[0] is Verdict.PASS

    def test_other_numbers_have_no_ceiling(self):
        degrees = self.PERCENT + 30
        assert ceiling_checks(drift(degrees, np.minimum(degrees, 129.4)), DriftBudget()) == []


def test_numbers_that_lie_anywhere_up_to_1_are_near_it_by_chance():
    anywhere = GENERATOR.uniform(-1, 1, (1500, 6))
    capped = np.where(np.abs(anywhere) > 0.98, np.sign(anywhere), anywhere)
    assert ceiling_checks(drift(anywhere, capped), DriftBudget()) == []


def test_minus_1_is_far_from_1():
    distance = GENERATOR.lognormal(-6, 2, (1500, 6)).clip(0, 2)
    noisy = distance * (1 + 0.03 * GENERATOR.standard_normal(distance.shape))
    assert ceiling_checks(drift(1 - distance, half(1 - noisy), "regression"), DriftBudget()) == []
