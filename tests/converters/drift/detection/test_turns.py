"""Samples that would be right if angles or quaternions were read as such."""

import numpy as np
import pytest

from tfmp.converters.drift.detection.turns import LENGTHS, turned

CLOSE = 0.1


def which(reference, candidate):
    one, other = np.asarray(reference, float), np.asarray(candidate, float)
    found, counts = turned(one, other, float(np.abs(other - one).max()), CLOSE)
    assert bool(counts) == found.any()
    return found.tolist()


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_an_angle_at_the_other_end_of_its_range(length):
    near, far = 0.499 * length, -0.499 * length
    assert which([[1, near], [1, near]], [[1, far], [1, near / 2]]) == [True, False]
    assert which([[1, 0.001 * length]], [[1, 0.999 * length]]) == [True]
    assert which([[1, 0.25 * length]], [[1, 1.25 * length]]) == [False]  # at no end


def test_a_quaternion_of_the_other_sign_beside_a_place():
    pose = np.array([3, -2, 0.5, 0.5, 0.5, 0.5])
    other = pose * [1, 1, -1, -1, -1, -1]
    assert which([pose, pose], [other, other * [0.5, 1, 1, 1, 1, 1]]) == [True, False]
    assert which([2 * pose], [2 * other]) == [False]  # not of length 1


def test_a_rotation_vector_that_goes_the_other_way_round():
    one = np.array([3.1, 1.9, 1.9, 1.61])  # a place before three numbers, of length 3.13
    other = one * [1, -1, -1, -1]
    assert which([one, one], [other, one * [1, 1, -1, -1]]) == [True, False]
    assert which([0.5 * one], [0.5 * one * [1, -1, -1, -1]]) == [False]  # at no half turn


def test_what_was_turned_is_counted_by_column():
    one = np.array([[0.0, 179.9], [0.0, 10.0]])
    found, counts = turned(one, one * [1, -1], 359.8, CLOSE)
    assert found.tolist() == [True, False]
    assert np.argwhere(np.reshape(counts, (-1, 2))).tolist() == [[list(LENGTHS).index("360"), 1]]
