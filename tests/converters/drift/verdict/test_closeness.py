"""Distances of an output and of its samples: small ones are judged by their own size."""

from dataclasses import replace

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputAccumulator, OutputDrift
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.closeness import closeness_checks

GENERATOR = np.random.default_rng(0)


def check(name: str, found: OutputDrift, budget: DriftBudget | None = None) -> Check | None:
    checks = closeness_checks(found, budget or DriftBudget())
    return next((each for each in checks if each.name == name), None)


class TestSamples:
    """Vectors of very different lengths."""

    REFERENCE = GENERATOR.standard_normal((400, 6)) * 10.0 ** GENERATOR.uniform(-2, 3, (400, 1))

    def test_all_right(self):
        found = check("sample_rel_l2", drift(self.REFERENCE, half(self.REFERENCE)))
        assert found.verdict is Verdict.PASS
        assert found.text.endswith(
            "budget 0.1; at most 0.75% of all samples are off by more (95% confidence)"
        )

    @pytest.mark.parametrize(
        ("bad", "verdict"),
        [(1, Verdict.INCONCLUSIVE), (12, Verdict.FAIL)],
    )
    def test_small_ones_that_are_lost(self, bad, verdict):
        candidate = half(self.REFERENCE)
        smallest = np.argsort(np.linalg.norm(self.REFERENCE, axis=1))[-200 - bad : -200]
        candidate[smallest] = 0
        found = drift(self.REFERENCE, candidate)
        assert found.rel_l2 < 0.01
        share = check("sample_share", found)
        assert share.verdict is verdict
        assert f"{bad} of 400 samples are off by more than 0.1 of their own size" in share.text

    def test_scalars_cross_zero_by_chance(self):
        reference = GENERATOR.standard_normal((400, 1))
        candidate = reference + 0.003 * GENERATOR.standard_normal((400, 1))
        assert check("sample_rel_l2", drift(reference, candidate)).verdict is Verdict.PASS
        prices = np.abs(reference) + 0.01  # what is never negative is small for a reason
        candidate = np.where(prices < 0.08, 0, prices)
        assert check("sample_share", drift(prices, candidate)).verdict is Verdict.FAIL
        rain = np.maximum(reference, 0)
        noisy = np.maximum(rain + 0.003 * GENERATOR.standard_normal(rain.shape), 0)
        assert check("sample_rel_l2", drift(rain, noisy)).verdict is Verdict.PASS

    def test_noise_that_all_samples_have_is_not_their_loss(self):
        still = self.REFERENCE / np.linalg.norm(self.REFERENCE, axis=1, keepdims=True)
        still[:40] *= 1e-2
        noisy = still + 4e-3 * GENERATOR.standard_normal(still.shape)
        found = check("sample_share", drift(still, noisy))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "no larger than those of the other samples" in found.text

    def test_some_of_them_that_are_lost_beside_right_ones_are_no_tail_of_noise(self):
        amounts = np.where(np.arange(3000) % 30 == 0, 1e4, 1.0) * GENERATOR.uniform(1, 2, 3000)
        lost = half(np.where(np.arange(3000) % 10 == 1, -amounts, amounts))
        found = check("sample_share", drift(amounts[:, None], lost[:, None]))
        assert found.verdict is Verdict.FAIL

    def test_ids_are_not_read_by_size(self):
        accumulator = OutputAccumulator("y")
        accumulator.update(GENERATOR.integers(0, 9, (400, 6)), GENERATOR.integers(0, 9, (400, 6)))
        assert closeness_checks(accumulator.result(), DriftBudget()) == []

    def test_logits_are_read_without_their_offset(self):
        logits = 300 + GENERATOR.standard_normal((400, 6))
        noisy = logits + 0.3 * GENERATOR.standard_normal((400, 6))
        found = drift(logits, noisy, "classification")
        assert found.rel_l2 < 0.01
        assert check("sample_share", found).verdict is not Verdict.PASS

    def test_noise_of_logits_is_no_excuse(self):
        logits = GENERATOR.standard_normal((600, 6))
        logits[::5] *= 0.6
        noisy = logits + 0.14 * GENERATOR.standard_normal(logits.shape)
        found = check("sample_share", drift(1000 + logits, 1000 + noisy, "classification"))
        assert found.verdict is Verdict.FAIL

    def test_switched_off(self):
        assert (
            check("sample_rel_l2", drift(np.eye(3), np.eye(3)), DriftBudget(sample_rel_l2=None))
            is None
        )


def test_flips_are_judged_as_flips():
    codes = 1.5 * np.eye(8, dtype=np.float32)[GENERATOR.integers(0, 8, 1000)]
    candidate = codes.copy()
    candidate[:2] = np.roll(candidate[:2], 1, axis=1)
    found = check("rel_l2", drift(codes, candidate))
    assert found.measured > 0.01
    assert found.verdict is Verdict.PASS
    assert "and 0 without the few samples over sample_rel_l2" in found.text
    assert check("rel_l2", drift(codes, codes * 1.1)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("measured", "limit", "told"),
    [
        (0.010000001, 0.01, "0.010000001 is over the budget of 0.01"),
        (0.0100049, 0.01, "0.010005 is over the budget of 0.01"),
        (0.00999999, 0.01, "0.00999999 is within the budget of 0.01"),
        (0.012346, 0.012345, "0.01235 is over the budget of 0.012345"),
        (0.012346, 0.0123465, "0.0123 is within the budget of 0.0123465"),
        (0.05, 0.01, "0.05 is over the budget of 0.01"),
    ],
)
def test_a_number_shows_on_which_side_of_the_budget_it_is(measured, limit, told):
    values = np.ones((60, 1))
    output = replace(drift(values, values * 1.1), rel_l2=measured)
    found = closeness_checks(output, DriftBudget(rel_l2=limit, sample_rel_l2=None))
    assert f"rel_l2 {told}" in found[0].text


def test_few_numbers_near_zero_are_no_lost_samples():
    scores = np.abs(GENERATOR.standard_normal((300, 1))) + 0.02
    scores[:3] = 0.004
    noisy = scores + 1e-3 * GENERATOR.standard_normal(scores.shape)
    noisy[:3] = 0.0028
    found = check("sample_share", drift(scores, noisy))
    assert found.verdict is Verdict.PASS
    assert "3 of them are noise beside larger samples" in found.text
    noisy[:20] = 3 * scores[:20] + 1
    assert check("sample_share", drift(scores, noisy)).verdict is Verdict.FAIL


def test_small_numbers_beside_many_zeros_are_as_noisy_as_the_others():
    rain = np.maximum(GENERATOR.standard_normal((600, 5)) - 2, 0)
    noisy = np.maximum(rain + 2e-3 * GENERATOR.standard_normal(rain.shape) * (rain > 0), 0)
    noisy[np.flatnonzero(rain.any(axis=1))[:4]] = 0
    rain[np.flatnonzero(rain.any(axis=1))[:4]] *= 2e-3
    found = check("sample_share", drift(rain, noisy))
    assert found.verdict is Verdict.PASS
