"""Small values beside large ones: of the places of a sample, and of a column over samples."""

import numpy as np
import pytest
from judged_distances import drift, half, judged

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputAccumulator
from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.drift.verdict.hidden.small_values import small_value_checks

GENERATOR = np.random.default_rng(0)


class TestSmallValues:
    """Depth maps with something near in each of them."""

    FAR = GENERATOR.uniform(20, 80, (100, 16, 16, 1))

    def near(self, metres: np.ndarray | float) -> np.ndarray:
        maps = self.FAR.copy()
        maps[:, 6:9, 6:9] = metres
        return maps

    def test_near_pixels_that_are_wrong(self):
        maps = self.near(GENERATOR.uniform(0.25, 0.4, (100, 3, 3, 1)))
        verdict, text = judged(maps, half(self.near(0.05)))
        assert verdict is Verdict.FAIL
        assert "values below 1/64 of their sample's size are off by 0.8" in text
        assert "times as much as large values" in text
        assert judged(maps, half(maps))[0] is Verdict.PASS

    def test_zeros_have_no_size_to_be_off_by(self):
        verdict, text = judged(self.near(0.0), self.near(0.5))
        assert verdict is Verdict.FAIL
        assert "values that are 0 in the reference are off by 0.5" in text

    def test_values_of_both_signs_are_small_by_chance(self):
        flow = GENERATOR.standard_normal((100, 16, 16, 1))
        pinched = np.where(np.abs(flow) < 0.05, 0, flow)
        assert judged(flow, pinched)[0] is Verdict.PASS
        assert judged(np.abs(flow), np.abs(pinched))[0] is Verdict.FAIL


class TestEitherSign:
    """Forces, voices and spins: some are near zero, and not by chance."""

    NEAR = GENERATOR.random((200, 40, 40)) < 0.3
    FORCES = np.where(NEAR, 0.01, 1.0) * GENERATOR.standard_normal(NEAR.shape)

    @pytest.mark.parametrize("task", ["regression", None])
    def test_small_forces_that_are_none(self, task):
        verdict, text = judged(self.FORCES, half(np.where(self.NEAR, 0, self.FORCES)), task)
        assert verdict is Verdict.FAIL
        assert "values below 1/16 of their sample's size, more than are so near zero by" in text
        noise = GENERATOR.standard_normal(self.FORCES.shape)
        for candidate in (
            half(self.FORCES),
            self.FORCES * (1 + 1e-3 * noise),
            half(self.FORCES + 1e-3 * noise),
        ):
            assert judged(self.FORCES, candidate, task)[0] is Verdict.PASS

    def test_small_ones_that_are_off_by_less_than_half_may_be_noise(self):
        off = np.where(self.NEAR, 0.7, 1.0) * self.FORCES
        assert judged(self.FORCES, off)[0] is Verdict.INCONCLUSIVE

    def test_samples_of_any_length_have_no_places_in_common(self):
        accumulator = OutputAccumulator("y")
        for length in (30, 40):
            accumulator.update(self.FORCES[:, :length, :3], half(self.FORCES[:, :length, :3]))
        assert small_value_checks(accumulator.result(), DriftBudget()) == []

    @pytest.mark.parametrize("shape", [(300, 60, 3), (300, 180)])
    def test_another_unit_is_no_reason_to_be_small(self, shape):
        speed = np.where(GENERATOR.random((300, 60, 1)) < 0.7, 1e-4, 20.0)
        turn = GENERATOR.uniform(-np.pi, np.pi, speed.shape)
        speed *= GENERATOR.standard_normal(speed.shape)
        cars = np.concatenate([np.sin(turn), np.cos(turn), speed], axis=-1)
        noise = 1e-3 * cars.std(axis=(0, 1)) * GENERATOR.standard_normal(cars.shape)
        rounded = half(cars + noise).reshape(shape)
        assert judged(cars.reshape(shape), rounded)[0] is Verdict.PASS


class TestColumns:
    """A hazard that is small for most patients, beside their age."""

    HAZARD = np.exp(-11 + 2 * GENERATOR.standard_normal((1000, 1)))
    AGE = GENERATOR.uniform(20, 90, (1000, 1))

    def patients(self, hazard: np.ndarray) -> np.ndarray:
        return np.concatenate([self.AGE, hazard], axis=1)

    def test_small_ones_that_are_zero(self):
        flushed = np.where(self.HAZARD < 6e-5, 0, self.HAZARD)
        verdict, text = judged(self.patients(self.HAZARD), self.patients(flushed))
        assert verdict is Verdict.FAIL
        assert "column 1 of 2 is off by 0.5" in text
        assert "of 1,000 samples on which it is below 0.000122, and by " in text

    def test_of_whole_numbers_zero_is_one_as_others_are(self):
        classes = np.arange(1000)[:, None] % 5.0
        changed = np.where((classes == 0) & (np.arange(1000)[:, None] < 50), 1, classes)
        for scale, found in ((1, 0), (0.25, 1)):
            sides = (self.patients(scale * each) for each in (classes, changed))
            assert len(small_value_checks(drift(*sides), DriftBudget())) == found

    @pytest.mark.parametrize("noise", ["of each", "everywhere"])
    def test_noise_is_no_fault_of_small_ones(self, noise):
        scale = 0.02 * (self.HAZARD if noise == "of each" else self.HAZARD.std())
        noisy = self.HAZARD + scale * GENERATOR.standard_normal(self.HAZARD.shape)
        assert judged(self.patients(self.HAZARD), self.patients(noisy))[0] is Verdict.PASS

    @pytest.mark.parametrize("shape", [(20,), (160,), (24, 20)])
    def test_small_ones_of_one_column_of_many(self, shape):
        small = (np.arange(600) % 4 == 0).reshape(600, *[1] * len(shape))
        others = GENERATOR.standard_normal((600, *shape))
        before = np.where(small & (np.arange(shape[-1]) == 3), 0.02, 1.0) * others
        lost = np.where(small & (np.arange(shape[-1]) == 3), 0, before)
        verdict, text = judged(before, half(lost))
        assert verdict is Verdict.FAIL
        assert f"column 3 of {shape[-1]} is off by " in text
        assert judged(before, half(before))[0] is Verdict.PASS
        noisy = before * (1 + 1e-3 * GENERATOR.standard_normal(before.shape))
        assert judged(before, half(noisy))[0] is Verdict.PASS

    def test_noise_of_a_few_loud_samples_is_that_of_all_columns(self):
        generator = np.random.default_rng(0)  # another one's loud sample may be no noise
        before = np.exp(1.5 * generator.standard_normal((600, 20)) + np.linspace(-2, 2, 20))
        loud = np.where(np.arange(600) == before[:, 0].argmin(), 0.4, 0.004)[:, None]
        noisy = before + loud * generator.standard_normal(before.shape)
        assert judged(before, noisy, "regression")[0] is not Verdict.FAIL

    def test_declared_probabilities_decide_at_one_half(self):
        small = np.concatenate([self.HAZARD.clip(0, 1), GENERATOR.random((1000, 1))], axis=1)
        flushed = np.where(small < 6e-5, 0, small)
        assert judged(small, flushed, "multilabel")[0] is Verdict.PASS
        verdict, text = judged(small, flushed)
        assert verdict is Verdict.INCONCLUSIVE
        assert text.endswith("If small values do not matter, set y.slice_rel_l2 to more than that")
