"""Detections as sets: order is nothing, overlap and scores are everything."""

import numpy as np
import pytest

from tfmp.converters.drift.detections import by_boxes, by_rows, pair_rows

# Corners and a score.
FOUND = np.array(
    [[[10, 10, 50, 60, 0.9], [100, 90, 130, 140, 0.8], [300, 200, 310, 210, 0.6]]], np.float32
)


def changed(candidate, reference=FOUND, columns=(0, 1, 2, 3)):
    counted, shares = by_boxes(reference, candidate, columns)
    assert shares[0] == pytest.approx(counted.changed / max(counted.decisions, 1))
    return counted.changed, counted.decisions


def test_the_order_of_a_list_means_nothing():
    assert changed(FOUND[:, ::-1]) == (0, 3)


def test_a_small_box_that_moves_by_half_its_width():
    moved = FOUND.copy()
    moved[0, 2, [0, 2]] += 5
    assert changed(moved) == (1, 3)
    moved[0, 2, [0, 2]] -= 4.8
    assert changed(moved) == (0, 3)


def test_missing_and_new_detections():
    assert changed(FOUND[:, :2]) == (1, 3)
    assert changed(FOUND, FOUND[:, :1]) == (2, 3)
    assert changed(FOUND[:, :0]) == (3, 3)
    assert changed(FOUND[:, :0], FOUND[:, :0]) == (0, 0)


def test_a_score_that_falls_and_a_class_that_is_another():
    fallen = FOUND.copy()
    fallen[0, 0, 4] = 0.5
    assert changed(fallen) == (1, 3)
    classes = np.concatenate([FOUND, np.array([[[3], [7], [3]]], np.float32)], axis=2)
    renamed = classes.copy()
    renamed[0, 1, 5] = 8
    assert changed(renamed, classes) == (1, 3)


def test_boxes_that_nobody_is_shown():
    faint = FOUND.copy()
    faint[..., 4] = 0.001
    moved = faint.copy()
    moved[..., :4] += 100
    assert changed(moved, faint) == (0, 0)
    sure = faint.copy()
    sure[..., 4] = 1.0
    assert changed(sure, faint) == (3, 3)


def test_centres_and_sizes():
    centres = np.array([[[320, 240, 30, 40], [100, 100, 20, 20]]], np.float32)
    moved = centres + np.array([0, 0, 0.5, 0.5], np.float32)
    assert changed(moved, centres) == (0, 2)
    swapped = centres[..., [1, 0, 2, 3]]
    assert changed(swapped, centres) == (1, 2)


def test_boxes_without_a_size_are_none():
    closed = FOUND.copy()
    closed[..., 2:4] = closed[..., :2]
    assert changed(closed) == (3, 3)
    assert changed(closed, closed) == (0, 3)


def test_rows_of_lists_are_paired_by_what_is_nearest():
    reference = np.array([[1.0, 10], [5, 50], [9, 90]])
    one, other = pair_rows(reference, reference[[2, 0]] * 1.001)
    np.testing.assert_allclose(one, other, rtol=2e-3)
    assert len(one) == 2
    counted = by_rows(reference, reference[:2])
    assert (counted.changed, counted.decisions) == (1, 3)
