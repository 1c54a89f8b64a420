"""Angles a turn apart and quaternions of either sign say the same; all else is an error."""

from dataclasses import replace

import numpy as np
import pytest

from tfmp.converters.drift.tasks import Task
from tfmp.converters.drift.wrapping import aligned

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("period", [360.0, 2 * np.pi, 24.0, 1.0])
def test_an_angle_a_turn_away_is_the_same(period):
    task = Task.of(f"angle:period={period}", "y")
    reference = GENERATOR.uniform(-period, period, (50, 3))
    turns = GENERATOR.integers(-2, 3, (50, 3))
    one, other = aligned(reference, reference + turns * period + 0.01 * period, task)
    np.testing.assert_array_equal(one, reference)
    np.testing.assert_allclose(other - one, 0.01 * period, rtol=1e-6)


def test_half_a_turn_is_as_far_as_an_angle_can_be():
    task = Task.of("angle", "y")
    reference = np.float32([[10.0], [350.0], [0.0]])
    _, other = aligned(reference, np.float32([[100.0], [10.0], [181.0]]), task)
    assert (other - reference).ravel().tolist() == [90.0, 20.0, -179.0]


@pytest.mark.parametrize(("axis", "shape"), [(-1, (40, 4)), (1, (40, 4)), (1, (40, 4, 5, 5))])
def test_a_quaternion_of_the_other_sign_is_the_same(axis, shape):
    task = Task.of(f"quaternion:axis={axis}", "y")
    reference = GENERATOR.standard_normal(shape).astype(np.float32)
    signs = GENERATOR.choice([-1, 1], reference.sum(axis=axis, keepdims=True).shape)
    one, other = aligned(reference, (signs * reference).astype(np.float16), task)
    np.testing.assert_array_equal(one, reference)
    np.testing.assert_allclose(other, reference, atol=2e-3)


@pytest.mark.parametrize("task", ["quaternion:columns=1-4", "angle:columns=1-2"])
def test_columns_alone_are_turned(task: str):
    reference = np.array([[-3.0, 0.5, -0.5, 0.1, 0.7]])
    same = np.array([[3.0, -0.5, 0.5, -0.1, -0.7]])
    if task.startswith("angle"):
        same = np.array([[357.0, 360.5, -360.5, 360.1, 0.7]])
    turned = Task.of(task, "y")
    received = aligned(reference, same, turned)[1]
    first = replace(turned, axis=1)
    turned_first = aligned(reference[..., None], same[..., None], first)[1]
    np.testing.assert_array_equal(turned_first[..., 0], received)
    columns = list(turned.columns)
    np.testing.assert_array_equal(received[:, columns], reference[:, columns])
    others = [column for column in range(5) if column not in columns]
    np.testing.assert_array_equal(received[:, others], same[:, others])
