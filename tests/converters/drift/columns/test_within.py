"""What single samples lose within themselves."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.within import lost_within, may_vary
from tfmp.converters.drift.distances import measure_distances

GENERATOR = np.random.default_rng(0)
MAP = 285 + 3 * GENERATOR.standard_normal((36, 36))


def half(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(np.float64)


class TestVariation:
    @pytest.mark.parametrize("shape", [(1296,), (36, 36), (36, 36, 1), (1, 36, 36), (1296, 1)])
    def test_a_flat_map_loses_all(self, shape):
        one = MAP.reshape(shape)
        ratio, error, spacings, *_ = lost_within(one, np.full(shape, one.mean()), -1)
        assert ratio == pytest.approx(1)
        assert error == pytest.approx(np.linalg.norm(one - one.mean()))
        assert spacings == pytest.approx((one.std()) / 0.25, rel=1e-3)

    def test_rounding_is_a_third_of_a_spacing(self):
        ratio, _, spacings, _, number = lost_within(MAP, half(MAP), -1)
        assert ratio < 0.05
        assert 0.2 < spacings < 0.4
        assert number < 1

    def test_another_level_loses_nothing(self):
        assert lost_within(MAP, MAP + 2, -1)[0] == pytest.approx(0, abs=1e-9)

    @pytest.mark.parametrize(("axis", "where"), [(-1, 2), (0, 2)])
    def test_the_channel_that_lost_most_is_told(self, axis, where):
        one = np.stack([MAP * 200, MAP, MAP - 285], axis)
        other = one.copy()
        np.moveaxis(other, axis, 0)[1] = MAP.mean()
        ratio, _, _, found, _ = lost_within(one, other, axis)
        assert (ratio, found) == (pytest.approx(1), where)

    def test_a_place_on_the_first_axis_is_told_by_a_negative_number(self):
        one = np.stack([MAP * 200, MAP])[..., None].repeat(40, -1)
        other = one.copy()
        other[1] = MAP.mean()
        assert lost_within(one, other, -1)[3] == -2

    @pytest.mark.parametrize(
        "one",
        [
            np.ones(3),
            np.ones((3, 3)),
            np.full(9, 1e200) * np.arange(9),
            np.where(MAP > 285, np.nan, MAP),
        ],
    )
    def test_a_few_values_huge_ones_and_nan_tell_nothing(self, one):
        assert lost_within(one, one * 1.01, -1) == (0,) * 5


class TestOneNumber:
    @pytest.mark.parametrize("end", [1, -1])
    def test_an_end_that_is_cut_off(self, end):
        one = end * MAP
        assert lost_within(one, half(np.minimum(one, np.quantile(one, 0.6))), -1)[4] > 4

    def test_values_near_one_number_beside_others(self):
        tissue = GENERATOR.random(MAP.shape) < 0.7
        one = np.where(tissue, 1045 + 9 * (MAP - 285) / 3, 1700 + 200 * (MAP - 285))
        assert lost_within(one, half(np.where(tissue, np.rint(one / 32) * 32, one)), -1)[4] > 4
        assert lost_within(one, half(one), -1)[4] < 2

    def test_edges_of_a_mask_that_move_are_no_loss(self):
        one = np.where(MAP > 285, MAP, 0)
        other = half(np.where(MAP > 285.2, MAP, 0))
        assert np.count_nonzero(one) > np.count_nonzero(other)
        assert lost_within(one, other, -1)[4] == 0

    def test_small_values_that_are_zero_are_no_loss(self):
        one = np.exp(4 * (MAP - 285) / 3)
        assert lost_within(one, np.where(one < 6e-3, 0, one), -1)[4] < 4


def test_samples_that_may_have_lost_something_are_chosen_by_channel():
    one = np.stack([MAP * 200, MAP], -1)[None].repeat(6, 0)
    other = half(one)
    other[2, ..., 1] = MAP.mean()
    found = measure_distances(one, other, columns=True, planes=True)
    assert np.flatnonzero(may_vary([found.columns, found.planes], MAP.size * 2)).tolist() == [2]
    assert not np.any(may_vary([None, None], 4))
