"""Bounds and tests against published and hand-computed values."""

import math

import pytest

from tfmp.converters.drift.statistics import (
    MOST_SAMPLES,
    binomial_bounds,
    binomial_p,
    clustered_bounds,
    fewest_samples,
)


class TestBinomialBounds:
    @pytest.mark.parametrize("trials", [1, 59, 299, 450])
    def test_no_events_by_hand(self, trials: int) -> None:
        # P(no event in n) = (1 - p)**n = 5 % at the bound.
        lower, upper = binomial_bounds(0, trials, 0.95)
        assert lower == 0.0
        assert (1 - upper) ** trials == pytest.approx(0.05, rel=1e-10)

    def test_rule_of_three(self) -> None:
        # Hanley and Lippman-Hand 1983: about 3/n.
        assert binomial_bounds(0, 1000, 0.95)[1] == pytest.approx(3 / 1000, rel=0.01)

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

    def test_299_without_an_event_prove_one_percent_and_298_do_not(self) -> None:
        assert binomial_bounds(0, 299, 0.95)[1] <= 0.01 < binomial_bounds(0, 298, 0.95)[1]

    def test_definition(self) -> None:
        # At the upper bound, 3 or fewer of 20 has probability 2.5 %; at the lower, 3 or more.
        lower, upper = binomial_bounds(3, 20, 0.975)
        assert sum(_binomial(k, 20, upper) for k in range(4)) == pytest.approx(0.025, rel=1e-9)
        assert sum(_binomial(k, 20, lower) for k in range(3, 21)) == pytest.approx(0.025, rel=1e-9)

    def test_agrees_with_scipy(self) -> None:
        from scipy.stats import binomtest

        expected = binomtest(7, 90).proportion_ci(0.90, "exact")
        assert binomial_bounds(7, 90, 0.95) == pytest.approx((expected.low, expected.high))

    def test_all_events(self) -> None:
        lower, upper = binomial_bounds(10, 10, 0.95)
        assert lower == pytest.approx(0.05 ** (1 / 10))
        assert upper == 1.0


def _binomial(k: int, n: int, p: float) -> float:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


class TestFewestSamples:
    def test_finds_the_boundary(self) -> None:
        assert fewest_samples(lambda count: count >= 12_345, 10) == 12_345

    def test_gives_up(self) -> None:
        assert fewest_samples(lambda count: False, 10) is None
        assert fewest_samples(lambda count: count >= MOST_SAMPLES, 10) == MOST_SAMPLES


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
