"""The advice of an open verdict is followed: each answer that it names changes the verdict."""

import re

import numpy as np
import pytest
from judged_distances import directions, drift, half

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.verdict.judgement import judge


def equal(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    values = random.standard_normal((count, 4))
    return values, values


def pressure(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    values = 1013 + 0.6 * random.standard_normal((count, 1))
    return values, half(values)


def small_samples(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    values = random.standard_normal((count, 8))
    values[::8] *= 1e-3
    return values, values + 4e-4 * random.standard_normal(values.shape)


def ties(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    scores = random.random((count, 4)) * 0.5
    scores[:, 0] = 1
    scores[:, 1] = np.where(np.arange(count) < count // 50, 0.9999, 0.3)
    changed = scores.copy()
    changed[: count // 50, :2] = scores[: count // 50, 1::-1]
    return scores, changed


def amounts(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    numbers = random.integers(30, 400, (count, 1))
    return numbers, numbers + (random.random(numbers.shape) < 0.05)


def angles(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return directions(360.0)


@pytest.mark.parametrize(
    ("make", "count", "task", "advice"),
    [
        (equal, 58, None, "Give at least 59"),
        (equal, 298, "classification", "Give about 299"),
        (pressure, 600, None, "--budget y.between_samples=none"),
        (small_samples, 800, None, "--budget y.sample_rel_l2=none"),
        (ties, 800, "classification", "--budget y.flip_rate="),
        (amounts, 2000, None, "--task y=regression"),
        (angles, 800, None, "--task y=angle:period=360"),
    ],
)
def test_advice_is_followed(make, count, task, advice) -> None:
    values = make(count, np.random.default_rng(0))
    before = judge([drift(*values, task)])
    assert before.verdict == "INCONCLUSIVE"
    text = next(reason for reason in before.reasons if advice in reason)
    budget = DriftBudget()
    if samples := re.search(r"Give (?:about|at least) ([\d,]+)", text):
        values = make(int(samples[1].replace(",", "")), np.random.default_rng(0))
    elif limit := re.search(r"--budget (\S+)$", text):
        budget = DriftBudget.parse(limit[1])
    elif declared := re.search(r"--task y=([^\s,]+)", text):
        task = declared[1]
    assert judge([drift(*values, task)], budget=budget).verdict == "PASS"
