"""Errors of channels and columns: which of them are noise beside others, and which are not."""

import numpy as np
import pytest

from tfmp.converters.drift.metrics import OutputAccumulator
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.verdict.slice_errors import SliceErrors, slice_errors


def errors_of(exact: np.ndarray, candidate: np.ndarray, kind: Kind | None = None) -> SliceErrors:
    """The errors of the last axis, of values that the candidate gives in FP16."""
    accumulator = OutputAccumulator("y", task=Task(kind, why="declared") if kind else None)
    accumulator.update(exact.astype(np.float32), candidate.astype(np.float16).astype(np.float32))
    output = accumulator.result()
    return slice_errors(output, output.totals.slices)


def excused(found: SliceErrors, column: int) -> bool:
    return bool((found.tolerated | found.noise)[column])


def weather() -> np.ndarray:
    """Twenty fields near 500 over a day, of which one is a humidity."""
    rng = np.random.default_rng(0)
    fields = 500 + 50 * rng.standard_normal((200, 24, 20))
    fields[..., 3] = 0.6 + 0.2 * rng.standard_normal((200, 24))
    return fields


WRONG = {
    "constant": lambda values: np.full_like(values, values.mean()),
    "another sample's": lambda values: np.roll(values, 1, axis=0),
    "smaller": lambda values: 0.6 * values,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("kind", [None, Kind.RECONSTRUCTION])
def test_a_field_that_says_nothing_is_no_rounding(wrong, kind):
    exact = weather()
    candidate = exact.copy()
    candidate[..., 3] = wrong(exact[..., 3])
    assert not excused(errors_of(exact, candidate, kind), 3)


def test_rounding_beside_larger_channels_is_excused():
    exact = weather()
    found = exact + np.random.default_rng(1).normal(0, 0.06, exact.shape)
    assert excused(errors_of(exact, found), 3)


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_sensor_of_a_reconstruction_that_says_nothing(wrong):
    exact = weather()[:, 0]
    candidate = exact.copy()
    candidate[:, 3] = wrong(exact[:, 3])
    assert not excused(errors_of(exact, candidate, Kind.RECONSTRUCTION), 3)


def analytes() -> np.ndarray:
    """Amounts of 64 substances in units of their own, of which one is small."""
    rng = np.random.default_rng(0)
    exact = np.geomspace(5, 400, 64) * rng.uniform(0.5, 1.5, (600, 64))
    exact[:, 9] *= 0.012 / exact[:, 9].mean()
    return exact


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_errors_that_grow_with_the_size_are_no_noise_of_small_columns(wrong):
    exact = analytes()
    candidate = exact.copy()
    candidate[:, 9] = wrong(exact[:, 9])
    assert not excused(errors_of(exact, candidate, Kind.REGRESSION), 9)


@pytest.mark.parametrize("floor", [0.004, 0.02])
def test_noise_that_all_columns_have_drowns_a_small_one(floor):
    """Above it, errors grow with the size; the smallest of them is that noise."""
    exact = analytes()
    found = exact + np.random.default_rng(1).normal(0, floor, exact.shape)
    assert excused(errors_of(exact, found, Kind.REGRESSION), 9)


def test_noise_in_probabilities_drowns_a_small_one():
    """Of whatever size, probabilities have one unit."""
    rng = np.random.default_rng(0)
    exact = np.geomspace(1e-3, 0.9, 64) * rng.uniform(0.5, 1, (600, 64))
    exact[:, 9] *= 1e-4
    found = exact * (1 + 1e-3 * rng.standard_normal(exact.shape))
    found[:, 9] = 0
    assert excused(errors_of(exact, found, Kind.MULTILABEL), 9)


def masks() -> np.ndarray:
    """An object in the middle of pictures whose background is next to nothing."""
    rng = np.random.default_rng(0)
    score = np.exp(-15 + 1.5 * rng.standard_normal((200, 32, 32)))
    score[:, 12:20, 12:20] = rng.uniform(0.9, 0.99, (200, 8, 8))
    return score


@pytest.mark.parametrize("kind", [Kind.BINARY, Kind.MULTILABEL])
def test_probabilities_that_decide_nothing_may_be_zero(kind):
    exact = masks()
    found = errors_of(exact, np.where(exact < 6e-5, 0, exact), kind)
    assert found.tolerated[0]


@pytest.mark.parametrize("kind", [Kind.BINARY, Kind.MULTILABEL])
def test_a_lost_part_of_masks_is_not_excused(kind):
    exact = masks()
    candidate = exact.copy()
    candidate[..., 18:] = 0
    assert not excused(errors_of(exact, candidate, kind), 18)
