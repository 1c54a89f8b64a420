"""Bounds and tests against published and hand-computed values."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from tfmp.converters.drift.statistics import (
    MOST_SAMPLES,
    Clustered,
    binomial_bounds,
    fewest_samples,
    mcnemar,
    paired_difference,
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


class TestMcnemar:
    def test_published(self) -> None:
        # Armitage and Berry, Statistical Methods in Medical Research (1994), p. 127: 12 and 2
        # discordant pairs; exact P = 0.0129 (StatsDirect manual).
        assert mcnemar(12, 2) == pytest.approx(0.0129, abs=5e-5)

    def test_by_hand(self) -> None:
        # Five against one of six coins: 2 (1 + 6) / 64.
        assert mcnemar(5, 1) == pytest.approx(14 / 64)
        assert mcnemar(1, 5) == mcnemar(5, 1)

    def test_no_discordant_pair(self) -> None:
        assert mcnemar(0, 0) == 1.0


class TestPairedDifference:
    @pytest.mark.parametrize(
        ("lost", "gained", "samples", "expected"),
        [
            # Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables (2017),
            # chapter 8: Tango's score interval for Bentur et al. 2009 and Cavo et al. 2012.
            (1, 7, 21, (-0.5172, -0.0260)),
            (6, 16, 161, (-0.1240, -0.0054)),
        ],
    )
    def test_published(self, lost, gained, samples, expected) -> None:
        found = paired_difference(lost, gained, samples, 0.975)
        assert found == pytest.approx(expected, abs=5e-5)

    def test_equivalence_test_published(self) -> None:
        # Tango 1998, section 6.1: soft contact lenses, thermal against hydrogen peroxide
        # disinfection, one of 44 lost, none gained. Lower limit of the 90 % interval -0.096, so
        # "not more than 10 % inferior" is shown at 5 % (Z = 1.709).
        upper = paired_difference(1, 0, 44, 0.95)[1]
        assert upper == pytest.approx(0.096, abs=5e-4)
        assert paired_difference(1, 0, 44, NormalDist().cdf(1.709))[1] == pytest.approx(
            0.1, abs=2e-4
        )

    def test_nothing_changed_by_hand(self) -> None:
        # n d / (1 - d) = z**2 at the bound.
        z = 1.6448536269514722
        lower, upper = paired_difference(0, 0, 450, 0.95)
        assert upper == pytest.approx(z**2 / (450 + z**2), rel=1e-9)
        assert lower == pytest.approx(-upper)

    @pytest.mark.parametrize(("lost", "gained"), [(0, 5), (5, 0), (7, 3), (0, 1)])
    def test_bounds_reject_exactly_at_their_confidence(self, lost: int, gained: int) -> None:
        z = 1.6448536269514722
        for bound in paired_difference(lost, gained, 100, 0.95):
            assert abs(_score_by_search(lost, gained, 100, bound)) == pytest.approx(z, rel=1e-4)

    def test_is_antisymmetric(self) -> None:
        lower, upper = paired_difference(8, 3, 90, 0.95)
        assert paired_difference(3, 8, 90, 0.95) == pytest.approx((-upper, -lower))

    def test_every_answer_lost_or_gained(self) -> None:
        assert paired_difference(9, 0, 9, 0.95)[1] == 1.0
        assert paired_difference(0, 9, 9, 0.95)[0] == -1.0
        assert 0 < paired_difference(9, 0, 9, 0.95)[0] < 1


def _score_by_search(lost: int, gained: int, samples: int, drop: float) -> float:
    """The score statistic with its nuisance rate found by maximizing the likelihood."""
    from scipy.optimize import minimize_scalar

    def unlikely(gained_rate: float) -> float:
        lost_rate, rest = gained_rate + drop, 1 - 2 * gained_rate - drop
        pairs = ((lost, lost_rate), (gained, gained_rate), (samples - lost - gained, rest))
        return -sum(count * math.log(max(rate, 1e-300)) for count, rate in pairs if count)

    low, high = max(0.0, -drop), (1 - drop) / 2
    gained_rate = minimize_scalar(
        unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    ).x
    variance = samples * (2 * gained_rate + drop - drop**2)
    return (lost - gained - samples * drop) / math.sqrt(variance)


class TestFewestSamples:
    def test_finds_the_boundary(self) -> None:
        assert fewest_samples(lambda count: count >= 12_345, 10) == 12_345

    def test_gives_up(self) -> None:
        assert fewest_samples(lambda count: False, 10) is None
        assert fewest_samples(lambda count: count >= MOST_SAMPLES, 10) == MOST_SAMPLES


def clustered(changed: np.ndarray, made: np.ndarray | int, repeated: float = 1.0) -> Clustered:
    made = np.broadcast_to(made, changed.shape)
    sums = [(one * other).sum() for one, other in ((changed, changed), (changed, made))]
    whole = (len(changed), made.sum(), changed.sum(), *sums, (made * made).sum())
    return Clustered(*map(int, whole), repeated)


class TestClustered:
    @pytest.mark.parametrize("lost", [0, 1, 7, 150, 299, 300])
    @pytest.mark.parametrize("made", [1, 64])
    def test_samples_that_are_lost_as_a_whole_are_coins(self, lost: int, made: int) -> None:
        found = clustered(np.repeat([made, 0], [lost, 300 - lost]), made)
        assert found.bounds(0.95) == pytest.approx(binomial_bounds(lost, 300, 0.95), abs=1e-8)

    @pytest.mark.parametrize("samples", [59, 300, 5000])
    def test_samples_of_one_rate_by_hand(self, samples: int) -> None:
        # The sample that is added weighs w with P(w > x) = (1 - x)**n, and moves the rate of 2 of
        # 64 towards 1 or towards 0.
        lower, upper = clustered(np.full(samples, 2), 64).bounds(0.95)
        weight = 1 - 0.05 ** (1 / samples)
        rate = 2 / 64
        assert upper == pytest.approx(rate + (1 - rate) * weight, rel=1e-6)
        assert lower == pytest.approx(rate * (1 - weight), rel=1e-6)

    def test_is_the_quantile_of_gaffke_s_mean(self) -> None:
        # Drawn as he defines it: gaps between uniform numbers weigh the samples and the one that
        # is added. Two rates and samples without a change are what sums can tell.
        generator = np.random.default_rng(0)
        found = clustered(np.repeat([16, 0], [12, 88]), 64)
        shares = np.repeat([0.25, 0.0, 1.0], [12, 88, 1])
        weights = generator.standard_exponential((100_000, 101))
        means = weights @ shares / weights.sum(axis=1)
        assert found.upper(0.95) == pytest.approx(np.quantile(means, 0.95), abs=3e-4)
        assert found.upper(0.6) == pytest.approx(np.quantile(means, 0.6), abs=3e-4)

    def test_sums_tell_nearly_as_much_as_samples(self) -> None:
        generator = np.random.default_rng(1)
        changed = generator.binomial(64, generator.beta(0.2, 5, 300))
        shares = np.append(changed / 64, 1.0)
        weights = generator.standard_exponential((100_000, 301))
        means = weights @ shares / weights.sum(axis=1)
        found = clustered(changed, 64)
        assert found.upper(0.95) == pytest.approx(np.quantile(means, 0.95), rel=0.01)

    @pytest.mark.parametrize("changed", [[5, 0, 0, 1], [1, 1, 1, 1], [64, 0, 3, 0]])
    def test_p_value_and_bound_agree(self, changed: list[int]) -> None:
        found = clustered(np.array(changed * 20), 64)
        for limit in (0.001, 0.01, found.rate * 0.9):
            p = found.p_over(limit)
            if 1e-9 < p < 0.5:
                assert found.lower(1 - p) == pytest.approx(limit, rel=1e-6)
        assert found.p_over(0.0) == 0.0
        assert clustered(np.zeros(80, int), 64).p_over(0.01) == 1.0

    def test_a_sample_that_nobody_saw_may_hold_more_decisions_than_most(self) -> None:
        nothing = np.zeros(300, int)
        made = np.where(np.arange(300) % 3 == 0, 10, 1)
        usual = (made * made).sum() / made.sum() / made.mean()
        upper = clustered(nothing, made).upper(0.95)
        assert upper == pytest.approx(usual * binomial_bounds(0, 300, 0.95)[1])

    def test_as_seen(self) -> None:
        few = clustered(np.repeat([1, 0], [3, 297]), 64)
        assert few.upper(0.95, as_seen=True) == pytest.approx(
            binomial_bounds(3, 300, 0.95)[1] / 64, rel=1e-6
        )
        assert few.upper(0.95) > binomial_bounds(0, 300, 0.95)[1]

    def test_copies_are_no_evidence(self) -> None:
        one, thrice = (clustered(np.repeat([4, 0], [2 * n, 98 * n]), 8, n) for n in (1, 3))
        assert one.bounds(0.95) == pytest.approx(thrice.bounds(0.95))

    def test_one_decision_less_than_whole_samples(self) -> None:
        changed = np.repeat([64, 0], [5000, 95_000])
        changed[0] = 63
        found, whole = clustered(changed, 64), binomial_bounds(5000, 100_000, 0.95)
        assert found.bounds(0.95) == pytest.approx(whole, rel=1e-5)
        assert found.bounds(0.95) < whole

    def test_hundred_million_samples(self) -> None:
        grown = Clustered(300, 4800, 16, 16, 256, 300 * 256, 300 / 10**8)
        assert grown.bounds(0.95) == pytest.approx((1 / 300, 1 / 300), rel=1e-2)
        assert grown.upper(0.95) > 1 / 300
