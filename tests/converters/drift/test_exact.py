"""Exact sums: against rational arithmetic, and independent of order and grouping."""

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from tfmp.converters.drift.exact import (
    Common,
    Expansion,
    fold,
    merge,
    total,
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
    shared: Common = None


def test_many_merge_as_one_after_the_other() -> None:
    parts = [_Numbers(i, i / 3, i != 2, fold([i / 7])) for i in range(4)]
    assert merge(*parts) == merge(merge(merge(parts[0], parts[1]), parts[2]), parts[3])
    assert merge(*parts) == _Numbers(6, 1.0, False, fold([1 / 7, 2 / 7, 3 / 7]))


def test_what_differs_once_is_shared_no_more() -> None:
    different = merge(_Numbers(shared="a"), _Numbers(shared="b"))
    assert different.shared == ""
    assert merge(different, _Numbers(shared="a")).shared == ""
