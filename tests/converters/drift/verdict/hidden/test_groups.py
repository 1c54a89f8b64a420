"""Scores in groups: what tells the members of one apart."""

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.hidden.groups import group_checks

GENERATOR = np.random.default_rng(0)
DEAR = (np.arange(600) % 5 < 2)[:, None]
NOISE = GENERATOR.standard_normal((600, 1))
PRICES = np.where(DEAR, 1000 + 6 * NOISE, 5 + np.tanh(NOISE))


def checks(candidate: np.ndarray, reference: np.ndarray = PRICES) -> list[Check]:
    return group_checks(drift(reference, candidate), DriftBudget())


@pytest.mark.parametrize("sign", [1, -1])
def test_a_group_that_became_one_number(sign):
    (found,) = checks(sign * np.where(DEAR, 1000, PRICES), sign * PRICES)
    assert found.verdict is Verdict.FAIL
    assert "240 of 600 samples have a size of" in found.text
    assert checks(np.where(DEAR, PRICES, 5)) == []  # rounding of 1000 is as large
    (found,) = checks(np.where(DEAR, PRICES, 5 - np.tanh(NOISE) * 2))
    assert "360 of 600 samples" in found.text


def test_rounding_noise_and_single_samples_lose_no_group():
    assert checks(half(PRICES)) == []
    assert checks(PRICES * (1 + 5e-4 * GENERATOR.standard_normal(PRICES.shape))) == []
    assert checks(PRICES + 0.4 * GENERATOR.standard_normal(PRICES.shape)) == []
    broken = half(PRICES)
    broken[:8] = 0
    assert checks(broken) == []


def test_the_last_digits_of_a_group_may_be_noise():
    near = np.where(DEAR, 1000 + NOISE, PRICES)
    assert checks(half(near), near) == []
    (found,) = checks(np.where(DEAR, 998, near), near)
    assert found.verdict is Verdict.INCONCLUSIVE


def test_scores_that_may_decide_are_asked_for():
    alike = np.where(DEAR, 0.97 + 0.006 * NOISE.clip(-3, 3), 0.3 + 0.02 * NOISE)
    assert checks(half(alike), alike) == []
    (found,) = checks(np.where(DEAR, 0.97, alike), alike)
    assert found.verdict is Verdict.INCONCLUSIVE


class TestColumns:
    """Prices beside other numbers."""

    OTHERS = GENERATOR.uniform(20, 200, (600, 2))

    def beside(self, prices: np.ndarray, columns: int = 2) -> np.ndarray:
        return np.concatenate([prices, *[self.OTHERS] * (columns // 2)], axis=1)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_a_group_that_became_one_number(self, sign):
        before = sign * self.beside(PRICES)
        (found,) = checks(sign * self.beside(np.where(DEAR, 1000, PRICES)), before)
        assert found.verdict is Verdict.FAIL
        assert "in column 0 of 3, 240 of 600 samples have a size of 512 to 2048, far" in found.text
        (found,) = checks(sign * self.beside(np.where(DEAR, 998, PRICES)), before)
        assert found.verdict is Verdict.FAIL

    def test_rounding_noise_and_single_samples_lose_no_group(self):
        before = self.beside(PRICES)
        assert checks(half(before), before) == []
        assert checks(before * (1 + 5e-4 * GENERATOR.standard_normal(before.shape)), before) == []
        broken = half(before)
        broken[:8, 0] -= 90
        assert checks(broken, before) == []

    def test_the_last_digits_of_a_group_may_be_noise(self):
        near = self.beside(np.where(DEAR, 1000 + NOISE, PRICES))
        assert checks(half(near), near) == []
        (found,) = checks(self.beside(np.where(DEAR, 998, PRICES)), near)
        assert found.verdict is Verdict.INCONCLUSIVE

    def test_groups_next_to_others_and_columns_of_many_are_left_alone(self):
        spread = np.where(DEAR, 1000 + 6 * NOISE, GENERATOR.uniform(5, 900, (600, 1)))
        assert checks(self.beside(np.where(DEAR, 1000, spread)), self.beside(spread)) == []
        lost = self.beside(np.where(DEAR, 1000, PRICES), 20)
        assert checks(lost, self.beside(PRICES, 20)) == []


def test_numbers_that_lie_anywhere_are_in_no_group():
    assert checks(np.round(NOISE, 1), NOISE) == []
