"""Bounds of single metrics."""

import math

import numpy as np
import pytest

from tfmp.converters.drift.labels.metric import difference_bounds, jackknife, metric


def test_without_a_change_the_bound_is_not_zero() -> None:
    lower, upper = difference_bounds(0.0, 0.0, 0.95, samples=300)
    assert upper == pytest.approx(1.645**2 / 300, rel=1e-3)
    assert lower == 0


def test_for_ones_and_zeros_it_is_wilsons_interval() -> None:
    from scipy.stats import binomtest

    events, samples = 5, 1000
    rate = events / samples
    error = math.sqrt(rate * (1 - rate) / samples)
    wilson = binomtest(events, samples).proportion_ci(0.9, method="wilson").high
    found = difference_bounds(rate, error, 0.95, samples=samples)[1]
    # Wilson's variance falls with 1 - rate; this one has to hold for numbers of any kind.
    assert found == pytest.approx(wilson, rel=0.01)


def test_many_small_changes_cost_little() -> None:
    found = difference_bounds(0.005, 0.0001, 0.95, samples=1000)[1]
    assert 0.005 < found < 0.0085


@pytest.mark.parametrize("error", [None, math.nan])
def test_an_unknown_error_gives_no_bound(error) -> None:
    assert difference_bounds(0.1, error, 0.95, samples=9) == (-math.inf, math.inf)
    assert difference_bounds(0.1, 0.01, 0.95, samples=9, degrees=0) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    "facts",
    [
        {"standard_error": 0.01, "degrees": 199.0},
        {"standard_error": 0.01, "reach": 0.0},
    ],
)
def test_more_samples_narrow_the_bounds(facts) -> None:
    found = metric("m", 0.9, 0.87, primary=True, samples=200, **facts)
    assert (found.lower, found.upper) == found.bounds(0.95)
    assert found.bounds(0.99)[0] < found.lower < found.upper < found.bounds(0.99)[1]
    more = found.seen_on(800)
    assert more.bounds(0.95)[1] - more.bounds(0.95)[0] < 0.6 * (found.upper - found.lower)
    assert found.bounds(0.5)[0] == pytest.approx(0.03, abs=0.0026)


def test_an_error_is_worse_where_it_is_larger() -> None:
    facts = {"primary": True, "samples": 9, "standard_error": 0.1}
    assert metric("e", 1.0, 1.5, lower_is_better=True, **facts).worse == 0.5
    assert metric("a", 1.0, 1.5, **facts).worse == -0.5


@pytest.mark.parametrize(("wrong", "over"), [("lower", 0.05), ("upper", 0.055)])
def test_a_drop_of_one_percent_is_rarely_mistaken(wrong, over) -> None:
    """300 samples of which 1 % are lost: in 5 % of runs a bound may be on the wrong side."""
    lost = np.random.default_rng(0).binomial(300, 0.01, 5000)
    bounds = []
    for count in range(lost.max() + 1):
        error, degrees = jackknife((count - (np.arange(300) < count)) / 299)
        facts = {"primary": True, "samples": 300, "standard_error": error, "degrees": degrees}
        found = metric("m", 1.0, 1 - count / 300, **facts)
        bounds.append(found.lower > 0.01 if wrong == "lower" else found.upper < 0.01)
    assert np.mean(np.array(bounds)[lost]) <= over


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
