"""Bounds and tests against published and hand-computed values."""

import pytest

from tfmp.converters.drift.statistics import (
    binomial_bounds,
    binomial_p,
    clustered_bounds,
)


class TestBinomialBounds:
    @pytest.mark.parametrize(
        ("events", "trials", "expected"),
        [
            # Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in
            # Medicine 17 (1998), table I: Clopper and Pearson's 95 % intervals.
            (81, 263, (0.2527, 0.3676)),
            (15, 148, (0.0578, 0.1617)),
            (0, 20, (0.0, 0.1684)),
            (1, 29, (0.0009, 0.1776)),
        ],
    )
    def test_published(self, events: int, trials: int, expected: tuple[float, float]) -> None:
        assert binomial_bounds(events, trials, 0.975) == pytest.approx(expected, abs=5e-5)

    @pytest.mark.parametrize(
        ("events", "trials"), list(enumerate((59, 93, 124, 153, 181, 208))), ids=str
    )
    def test_published_numbers_of_samples(self, events: int, trials: int) -> None:
        # Nutt and Wallis, Reliability Engineering and System Safety 83 (2004): runs that bound
        # 95 % of all with 95 % confidence, of which so many may lie beyond (Wilks's formula).
        enough, short = (binomial_bounds(events, n, 0.95)[1] for n in (trials, trials - 1))
        assert enough <= 0.05 < short

    def test_agrees_with_scipy(self) -> None:
        from scipy.stats import binomtest

        expected = binomtest(7, 90).proportion_ci(0.90, "exact")
        assert binomial_bounds(7, 90, 0.95) == pytest.approx((expected.low, expected.high))


class TestClusteredBounds:
    @pytest.mark.parametrize("lost", [0, 1, 7, 150, 299, 300])
    def test_samples_that_are_lost_as_a_whole_are_coins(self, lost: int) -> None:
        found = clustered_bounds(lost / 300, 1.0, 300, 0.95)
        assert found == pytest.approx(binomial_bounds(lost, 300, 0.95), abs=1e-8)

    @pytest.mark.parametrize("samples", [59, 300, 5000])
    def test_a_little_in_each_sample_leaves_what_nobody_saw(self, samples: int) -> None:
        rate = 2 / 64
        lower, upper = clustered_bounds(rate, rate, samples, 0.95)
        unseen = 1 - 0.05 ** (1 / samples)
        assert upper == pytest.approx(rate + unseen, rel=1e-6)
        assert lower == pytest.approx(rate * (1 - unseen), rel=1e-6)

    def test_p_is_the_chance_of_so_many_events_at_the_limit(self) -> None:
        from scipy.stats import binom

        for events in (1, 2, 5, 10):
            expected = binom.sf(events - 1, 100, 0.01)
            assert binomial_p(events, 100, 0.01) == pytest.approx(expected)
        assert binomial_p(0, 100, 0.01) == 1.0
