"""Exact sums: against rational arithmetic, and independent of order and grouping."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tfmp.converters.drift.exact import (
    Common,
    Expansion,
    Histogram,
    add_bands,
    banded,
    banded_by_slot,
    fold,
    merge,
    total,
    total_of_bands,
)

numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(st.lists(numbers, max_size=30))
def test_fold_keeps_the_exact_sum(terms: list[float]) -> None:
    assert sum(map(Fraction, fold(terms))) == sum(map(Fraction, terms))


@given(st.lists(numbers, max_size=30), st.randoms(use_true_random=False), st.integers(0, 30))
def test_fold_gives_the_same_tuple_in_any_order_and_grouping(terms, random, cut) -> None:
    shuffled = list(terms)
    random.shuffle(shuffled)
    grouped = fold((*fold(shuffled[:cut]), *fold(shuffled[cut:])))
    assert grouped == fold(terms)


def test_total_is_rounded_once() -> None:
    # 0.1 added ten times in float64 gives 0.9999999999999999 (IEEE 754 arithmetic).
    terms = [0.1] * 10
    assert sum(terms) != 1.0
    assert total(fold(terms)) == 1.0


def test_small_terms_are_not_lost_beside_large_ones() -> None:
    assert total(fold([1e16, 1.0, -1e16])) == 1.0
    assert total(fold([])) == 0.0
    assert fold([1.0, -1.0]) == ()


@pytest.mark.parametrize(
    "terms",
    [[float("inf")], [float("nan"), 1.0], [1e308, 1e308], [float("inf"), -float("inf")]],
)
def test_a_sum_that_is_not_finite_stays_infinite(terms: list[float]) -> None:
    assert fold(terms) == (float("inf"),)
    assert fold((*fold(terms), 5.0)) == (float("inf"),)


@dataclass(frozen=True)
class _Numbers:
    count: int = 0
    largest: float = 0.0
    always: bool = True
    summed: Expansion = ()
    bins: Histogram = ()
    shared: Common = None


def test_merge_goes_by_the_type_of_each_field() -> None:
    one = _Numbers(2, 3.0, True, fold([0.1]), (1, 2), "a")
    other = _Numbers(3, 1.0, False, fold([0.2]), (10, 20), "a")
    assert merge(one, other) == _Numbers(5, 3.0, False, fold([0.1, 0.2]), (11, 22), "a")


def test_merge_with_an_empty_one_changes_nothing() -> None:
    one = _Numbers(2, 3.0, False, fold([0.1]), (1, 2), "a")
    assert merge(one, _Numbers()) == one
    assert merge(_Numbers(), one) == one


def test_many_merge_as_one_after_the_other() -> None:
    parts = [_Numbers(i, i / 3, i != 2, fold([i / 7]), (i, 1) if i else ()) for i in range(4)]
    assert merge(*parts) == merge(merge(merge(parts[0], parts[1]), parts[2]), parts[3])
    assert merge(*parts) == _Numbers(6, 1.0, False, fold([1 / 7, 2 / 7, 3 / 7]), (6, 3))


def test_what_differs_once_is_shared_no_more() -> None:
    different = merge(_Numbers(shared="a"), _Numbers(shared="b"))
    assert different.shared == ""
    assert merge(different, _Numbers(shared="a")).shared == ""


class TestBands:
    """Sums over samples of many numbers at a time."""

    VALUES = np.random.default_rng(0).standard_normal((3, 50, 4)) * 10.0 ** np.arange(
        -300, 301, 200
    )

    def test_the_sums(self):
        found = total_of_bands(banded(self.VALUES), (3, 4))
        size = np.abs(self.VALUES).sum(axis=1)
        np.testing.assert_allclose(found / size, self.VALUES.sum(axis=1) / size, atol=2.0**-20)

    @pytest.mark.parametrize("step", [1, 7, 49])
    def test_any_split_and_order_gives_the_same(self, step):
        parts = {}
        for start in reversed(range(0, 50, step)):
            parts = add_bands(banded(self.VALUES[:, start : start + step]), parts)
        whole = banded(self.VALUES)
        assert parts.keys() == whole.keys()
        assert all((parts[band] == whole[band]).all() for band in whole)

    def test_each_place_has_the_sums_that_it_has_alone(self):
        generator = np.random.default_rng(0)
        values = generator.standard_normal((3, 40, 700)) * 10.0 ** generator.integers(-9, 9, 700)
        values[:, ::3, 5] = 0
        found = banded(values)
        for place in range(0, 700, 23):
            alone = banded(values[:, :, place : place + 1])
            for band, sums in found.items():
                assert (sums[:, place] == alone.get(band, np.zeros((3, 1)))[:, 0]).all()

    @pytest.mark.parametrize("step", [20_000, 7_000])
    def test_rows_by_slot_have_the_sums_of_their_own(self, step):
        generator = np.random.default_rng(0)
        values = generator.standard_normal((3, 20_000)) * 10.0 ** generator.integers(-9, 9, 20_000)
        slots = generator.integers(0, 9, 20_000)
        found = {}
        for start in range(0, 20_000, step):
            part = slice(start, start + step)
            found = add_bands(banded_by_slot(values[:, part], slots[part], 10), found)
        for slot in range(10):
            alone = banded(values[:, slots == slot, None])
            for band, sums in found.items():
                assert (sums[:, slot] == alone.get(band, np.zeros((3, 1)))[:, 0]).all()
        assert banded_by_slot(np.zeros((3, 5)), np.zeros(5, int), 2) == {}

    def test_zeros_leave_nothing_and_the_smallest_numbers_are_none(self):
        assert banded(np.zeros((3, 5, 2))) == {}
        values = np.zeros((1, 3, 2))
        values[0, 1, 1] = 1e-300
        found = total_of_bands(banded(values), (1, 2))
        np.testing.assert_allclose(found, [[0.0, 1e-300]], rtol=1e-6)

    def test_more_samples_than_float64_adds_exactly(self):
        values = np.full((1, 2**17 + 3, 1), 2.0**7 - 2.0**-30)
        assert banded(values)[0].tolist() == [[(2**17 + 3) * (2**37 - 1)]]

    @pytest.mark.parametrize("lost", [np.inf, -np.inf, np.nan])
    def test_what_float64_cannot_hold_is_infinite(self, lost):
        values = np.ones((1, 3, 2))
        values[0, 1, 1] = lost
        assert total_of_bands(banded(values), (1, 2)).tolist() == [[3.0, math.inf]]
