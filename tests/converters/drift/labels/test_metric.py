"""Bounds of single metrics."""

import math

import numpy as np
import pytest

from tfmp.converters.drift.labels.metric import SCORE, STUDENT, TANGO, difference_bounds, metric


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
    assert difference_bounds(0.1, error, 0.95) == (-math.inf, math.inf)
    assert difference_bounds(0.1, 0.01, 0.95, degrees=0) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    "facts",
    [
        {"law": TANGO, "lost": 8, "gained": 2},
        {"law": SCORE, "standard_error": 0.01, "degrees": 199.0},
        {"law": STUDENT, "standard_error": 0.01},
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
    facts = {"primary": True, "samples": 9, "law": STUDENT, "standard_error": 0.1}
    assert metric("e", 1.0, 1.5, lower_is_better=True, **facts).worse == 0.5
    assert metric("a", 1.0, 1.5, **facts).worse == -0.5


def test_a_drop_of_one_percent_is_rarely_held_for_more() -> None:
    """300 samples of which 1 % are lost: in 5 % of runs the lower bound may be over 1 %."""
    lost = np.random.default_rng(0).binomial(300, 0.01, 5000)
    facts = {"primary": True, "samples": 300, "law": TANGO, "gained": 0}
    bounds = [metric("m", 1.0, 1 - n / 300, lost=n, **facts).lower for n in range(lost.max() + 1)]
    assert np.mean(np.array(bounds)[lost] > 0.01) <= 0.05
