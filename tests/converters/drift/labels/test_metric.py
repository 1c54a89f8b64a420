"""Bounds of single metrics."""

import math

import numpy as np
import pytest

from tfmp.converters.drift.labels.metric import difference_bounds, jackknife, metric


def test_for_ones_and_zeros_it_is_wilsons_interval() -> None:
    from scipy.stats import binomtest

    events, samples = 5, 1000
    rate = events / samples
    error = math.sqrt(rate * (1 - rate) / samples)
    wilson = binomtest(events, samples).proportion_ci(0.9, method="wilson").high
    found = difference_bounds(rate, error, 0.95, samples=samples)[1]
    # Wilson's variance falls with 1 - rate; this one has to hold for numbers of any kind.
    assert found == pytest.approx(wilson, rel=0.01)


@pytest.mark.parametrize("error", [None, math.nan])
def test_an_unknown_error_gives_no_bound(error) -> None:
    assert difference_bounds(0.1, error, 0.95, samples=9) == (-math.inf, math.inf)
    assert difference_bounds(0.1, 0.01, 0.95, samples=9, degrees=0) == (-math.inf, math.inf)


def test_the_jackknife_of_a_mean_is_the_textbook_s() -> None:
    values = np.random.default_rng(0).standard_normal(50)
    error, degrees = jackknife((values.sum() - values) / 49)
    assert error == pytest.approx(values.std(ddof=1) / math.sqrt(50))
    assert degrees == 49
    assert jackknife(np.array([1.0, math.nan, math.nan])) == (None, 0.0)


def test_p_is_the_error_rate_at_which_the_bound_is_at_the_limit() -> None:
    found = metric("m", 0.9, 0.87, primary=True, samples=99, standard_error=0.01, degrees=98.0)
    assert found.bounds(1 - found.p_over(0.01))[0] == pytest.approx(0.01)
    assert (found.p_over(0.05), metric("m", 0.9, 0.8, primary=True, samples=9).p_over(0)) == (1, 1)
