"""Small values beside large ones: of the places of a sample, and of a column over samples."""

import numpy as np
import pytest
from judged_distances import half, judged

from tfmp.converters.drift.verdict.check import Verdict

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

    def test_noise_that_is_everywhere_is_none_of_small_values(self):
        maps = self.near(0.3)
        noisy = maps + 0.2 * np.abs(GENERATOR.standard_normal(maps.shape))
        assert judged(maps, noisy)[0] is Verdict.PASS

    def test_values_of_both_signs_are_small_by_chance(self):
        flow = GENERATOR.standard_normal((100, 16, 16, 1))
        pinched = np.where(np.abs(flow) < 0.05, 0, flow)
        assert judged(flow, pinched)[0] is Verdict.PASS
        assert judged(np.abs(flow), np.abs(pinched))[0] is Verdict.FAIL


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

    @pytest.mark.parametrize("noise", ["of each", "everywhere"])
    def test_noise_is_no_fault_of_small_ones(self, noise):
        scale = 0.02 * (self.HAZARD if noise == "of each" else self.HAZARD.std())
        noisy = self.HAZARD + scale * GENERATOR.standard_normal(self.HAZARD.shape)
        assert judged(self.patients(self.HAZARD), self.patients(noisy))[0] is Verdict.PASS

    def test_numbers_near_zero_by_chance(self):
        before = 4 * GENERATOR.standard_normal((1000, 2))
        noise = 0.02 * GENERATOR.standard_normal(before.shape)
        assert judged(np.tanh(before), np.tanh(before + noise))[0] is Verdict.PASS

    def test_declared_probabilities_decide_at_one_half(self):
        small = np.concatenate([self.HAZARD.clip(0, 1), GENERATOR.random((1000, 1))], axis=1)
        flushed = np.where(small < 6e-5, 0, small)
        assert judged(small, flushed, "multilabel")[0] is Verdict.PASS
        verdict, text = judged(small, flushed)
        assert verdict is Verdict.INCONCLUSIVE
        assert text.endswith("If small values do not matter, set y.slice_rel_l2 to more than that")
