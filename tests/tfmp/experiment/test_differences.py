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
    assert (found.low, found.high, found.enough) == (-math.inf, math.inf, None)
    assert found.finding is Finding.OPEN


def test_seeds_that_agree_by_chance_are_not_certain():
    """Three differences of 0 on 100 test samples: one sample may still go the other way."""
    found = paired_difference([0.9] * 3, [0.9] * 3, 0.001, 0.009)
    assert found.finding is Finding.OPEN
    assert paired_difference([0.9] * 3, [0.9] * 3, 0.1, 0.009).finding is Finding.AS_GOOD


@pytest.mark.parametrize("seeds", [3, 8])
@pytest.mark.parametrize("deviation", [0.003, 0.02])
def test_an_arm_at_the_margin_passes_at_most_as_often_as_told(seeds: int, deviation: float):
    """An arm that is worse by the margin exactly is called as good in at most 5 % of experiments.

    Of 2,000 experiments that is 100; with probability 1e-4 it is more than 137.
    """
    random = np.random.default_rng(seeds)
    wrong = 0
    for _ in range(2000):
        base = random.normal(0.9, 0.02, seeds)
        arm = base - 0.01 + random.normal(0, deviation, seeds)
        found = paired_difference(arm.tolist(), base.tolist(), 0.01, 0.0)
        wrong += found.finding in (Finding.AS_GOOD, Finding.BETTER)
    assert 60 <= wrong <= 137


def test_the_seeds_that_are_asked_for_decide():
    """With so many seeds, the bounds of arms with this spread leave the margin on one side."""
    random = np.random.default_rng(0)
    few = [0.9 + value for value in (-0.02, 0.01, -0.012, 0.0)]
    first = paired_difference(few, [0.9] * 4, 0.01, 0.0)
    assert first.finding is Finding.OPEN
    assert first.enough is not None
    assert first.enough > 4
    decided = 0
    for _ in range(200):
        arm = 0.9 + first.mean + random.normal(0, 0.013, 4 * first.enough)
        found = paired_difference(arm.tolist(), [0.9] * len(arm), 0.01, 0.0)
        decided += found.finding is not Finding.OPEN
    assert decided > 150
