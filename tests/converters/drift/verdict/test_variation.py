"""What tells samples or places apart, and scores that rank."""

import re

import numpy as np
import pytest
from judged_distances import drift, half, judged

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.closeness import closeness_checks
from tfmp.converters.drift.verdict.variation import variation_ratio

GENERATOR = np.random.default_rng(0)


class TestBetweenSamples:
    """Scans that differ by a hundredth from the mean one, in three channels."""

    MEAN = GENERATOR.uniform(100, 200, (1, 9, 9, 3))
    SCANS = MEAN * (1 + 0.009 * GENERATOR.standard_normal((200, 9, 9, 3)))

    def test_scans_that_are_the_same_for_everybody(self):
        verdict, text = judged(self.SCANS, half(np.broadcast_to(self.MEAN, self.SCANS.shape)))
        assert verdict is Verdict.FAIL
        assert "what differs" in text
        assert judged(self.SCANS, half(self.SCANS))[0] is Verdict.PASS

    def test_one_channel_of_them(self):
        candidate = half(self.SCANS)
        candidate[..., 1] = self.MEAN[..., 1]
        verdict, text = judged(self.SCANS, candidate)
        assert verdict is Verdict.FAIL
        assert "channel 1 of 3" in text

    def test_a_constant_channel_says_nothing(self):
        opaque = self.SCANS.copy()
        opaque[..., 2] = 255
        assert judged(opaque, half(opaque) - [0, 0, 0.12])[0] is Verdict.PASS

    def test_the_share_of_what_tells_samples_apart(self):
        noisy = self.SCANS + 0.27 * GENERATOR.standard_normal(self.SCANS.shape)
        assert variation_ratio(drift(self.SCANS, noisy)) == pytest.approx(0.2, rel=0.1)


class TestWithinSamples:
    """The load of towns over a day: levels of 300 to 3000, and a wave of 0.5 % or 5 %."""

    LEVELS = GENERATOR.uniform(300, 3000, (300, 1))
    WAVES = np.sin(np.arange(24) / 4 + GENERATOR.uniform(0, 6, (300, 1)))

    @pytest.mark.parametrize("task", [None, "regression"])
    def test_flat_lines(self, task):
        loads = self.LEVELS * (1 + 0.005 * self.WAVES)
        verdict, text = judged(loads, half(self.LEVELS).repeat(24, axis=1), task)
        assert verdict is Verdict.FAIL
        assert "what differs within a sample, beside its mean, is off by 1" in text

    def test_waves_that_are_there(self):
        loads = self.LEVELS * (1 + 0.05 * self.WAVES)
        assert judged(loads, half(loads))[0] is Verdict.PASS
        shifted = half(loads + 3)  # the level moves, and the wave with it
        assert judged(loads, shifted)[0] is Verdict.PASS

    def test_quantiles_that_become_one(self):
        middle = self.LEVELS[..., None] * (1 + 0.05 * self.WAVES[..., None])
        quantiles = middle * (
            1 + np.array([-0.008, 0, 0.008]) * GENERATOR.uniform(0.5, 1, (300, 1, 1))
        )
        rounded = half(quantiles)
        assert judged(quantiles, rounded, "regression")[0] is Verdict.PASS

    def test_noise_of_float32_is_no_wave(self):
        flat = self.LEVELS.repeat(24, axis=1) * (1 + 1e-7 * self.WAVES)
        assert judged(flat, half(flat))[0] is Verdict.PASS


class TestScores:
    """One score for each sample."""

    def test_a_few_zeros_hide_no_variation(self):
        scores = 100.03 + 0.02 * GENERATOR.standard_normal((500, 1))
        scores[::100] = -50
        verdict, text = judged(scores, half(scores))
        assert verdict is Verdict.FAIL
        assert "of what tells most of them apart" in text
        assert judged(scores * 1.001, scores * 1.001)[0] is Verdict.PASS

    def test_scores_that_rank_a_little_worse(self):
        scores = -11 + 0.01 * GENERATOR.standard_normal((1000, 1))
        verdict, text = judged(scores, half(scores))
        assert verdict is Verdict.INCONCLUSIVE
        assert "about 7% of all pairs change places" in text
        assert judged(scores, half(scores), "regression")[0] is Verdict.PASS
        assert judged(scores + 11, half(scores + 11))[0] is Verdict.PASS


class TestSinglePlaces:
    """Seven variables over 48 hours, of which the first is a thousand times as large."""

    HOURS = GENERATOR.standard_normal((200, 48, 7)) * [1000, 1, 1, 1, 1, 1, 1] + 5

    def test_the_last_hours_of_one_variable(self):
        candidate = half(self.HOURS)
        candidate[:, 46:, 3] = 5
        verdict, text = judged(self.HOURS, candidate)
        assert verdict is Verdict.FAIL
        assert "a place in channel 3 of 7 is off by" in text
        assert judged(self.HOURS, half(self.HOURS))[0] is Verdict.PASS

    def test_a_few_samples_do_not_tell_how_much_a_place_varies(self):
        near = self.HOURS[:2].copy()
        near[1, 7, 3] = near[0, 7, 3] + 1e-3
        noisy = near.copy()
        noisy[:, 7, 3] += 0.05
        assert judged(near, noisy)[0] is Verdict.PASS

    def test_noise_of_places_that_hardly_vary(self):
        quiet = self.HOURS * np.geomspace(1, 1e-3, 48)[:, None]
        noisy = quiet + 2e-3 * GENERATOR.standard_normal(quiet.shape)
        checks = closeness_checks(drift(quiet, noisy), DriftBudget())
        assert not any("a place in channel" in check.text for check in checks)


class TestNumbers:
    """A number and its budget are told with as many digits as tell them apart."""

    SCANS = TestBetweenSamples.SCANS
    SCORES = GENERATOR.standard_normal((500, 1)) + 20

    @pytest.mark.parametrize(
        ("values", "count"), [(SCANS, 5), (SCORES, 2)], ids=["scans", "scores"]
    )
    def test_one_that_is_just_over_its_budget(self, values, count):
        output = drift(values, values + 0.3 * GENERATOR.standard_normal(values.shape))

        def slices(limit: float) -> list[Check]:
            checks = closeness_checks(output, DriftBudget(slice_rel_l2=limit))
            return [check for check in checks if check.name == "slice_rel_l2"]

        measured = [check.measured for check in slices(1e-9)]
        assert len(measured) == count
        for place, number in enumerate(measured):
            text = slices(round(number * (1 - 1e-5), 9))[place].text
            told, budget = re.search(r"off by (\S+) of .* budget (\d\.\d+)", text).groups()
            assert float(told) > float(budget)
            assert float(told) == pytest.approx(float(budget), rel=1e-2)


def test_small_scores_may_be_noise_of_larger_ones():
    on = (np.arange(600) % 10 < 3)[:, None]
    current = np.where(on, 400, 0) + 0.01 * GENERATOR.standard_normal((600, 1))
    current += 3 * on * GENERATOR.standard_normal(current.shape)
    noisy = half(current + 0.05 * GENERATOR.standard_normal(current.shape))
    verdict, text = judged(current, noisy)
    assert verdict is Verdict.INCONCLUSIVE
    assert "it may be their noise" in text
    assert judged(current, np.where(on, current, noisy))[0] is Verdict.FAIL
