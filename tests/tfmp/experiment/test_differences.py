"""Paired differences: right on simulated arms whose true difference is known."""

import math

import numpy as np
import pytest

from tfmp.experiment.differences import Finding, paired_difference


def test_the_mean_and_its_bounds():
    """By hand: mean 0.02, deviation 0.01, t(2, 95 %) = 2.92."""
    found = paired_difference([0.91, 0.92, 0.93], [0.9, 0.9, 0.9], 0.01, 0.0)
    assert found.mean == pytest.approx(0.02)
    assert found.low == pytest.approx(0.02 - 2.92 * 0.01 / math.sqrt(3), abs=1e-4)
    assert found.high == pytest.approx(0.02 + 2.92 * 0.01 / math.sqrt(3), abs=1e-4)


@pytest.mark.parametrize(
    ("shift", "finding"),
    [(0.0, Finding.AS_GOOD), (-0.1, Finding.WORSE), (0.1, Finding.BETTER), (-0.02, Finding.OPEN)],
)
def test_what_is_found(shift: float, finding: Finding):
    base = [0.9, 0.91, 0.92]
    arm = [value + shift + noise for value, noise in zip(base, (0, 0.001, -0.001), strict=True)]
    assert paired_difference(arm, base, 0.02, 0.0).finding is finding


def test_one_seed_proves_nothing():
    found = paired_difference([0.9], [0.9], 0.01, 0.001)
    assert (found.low, found.high, found.seeds_needed) == (-math.inf, math.inf, None)
    assert found.finding is Finding.OPEN
    # Three differences of 0 on 100 test samples: one sample may still go the other way.
    found = paired_difference([0.9] * 3, [0.9] * 3, 0.001, 0.009)
    assert found.finding is Finding.OPEN
    assert paired_difference([0.9] * 3, [0.9] * 3, 0.1, 0.009).finding is Finding.AS_GOOD


def test_an_arm_at_the_margin_passes_at_most_as_often_as_told():
    """An arm that is worse by the margin exactly is called as good in at most 5 % of experiments.

    Of 800 experiments that is 40; with probability 1e-4 it is more than 65.
    """
    seeds, random = 3, np.random.default_rng(3)
    wrong = 0
    for _ in range(800):
        base = random.normal(0.9, 0.02, seeds)
        arm = base - 0.01 + random.normal(0, 0.02, seeds)
        found = paired_difference(arm.tolist(), base.tolist(), 0.01, 0.0)
        wrong += found.finding in (Finding.AS_GOOD, Finding.BETTER)
    assert 20 <= wrong <= 65


@pytest.mark.parametrize("mean", [0.0, -0.02])
def test_the_seeds_that_are_asked_for_decide(mean: float):
    """Of arms whose true difference and spread are those that were seen, 4 of 5 are decided."""
    random = np.random.default_rng(0)
    deviation = 0.02
    half = deviation / math.sqrt(2)
    seeds = paired_difference([mean - half, mean + half], [0.0, 0.0], 0.01, 0.0).seeds_needed
    assert seeds is not None
    decided = 0
    for _ in range(1000):
        arm = random.normal(mean, deviation, seeds)
        found = paired_difference(arm.tolist(), [0.0] * seeds, 0.01, 0.0)
        decided += found.finding is not Finding.OPEN
    assert 750 < decided < 900
