"""Detections as sets: order is nothing, overlap and scores are everything."""

import numpy as np
import pytest

from tfmp.converters.drift.detection.boxes import are_boxes, by_boxes

# Corners and a score.
FOUND = np.array(
    [[[10, 10, 50, 60, 0.9], [100, 90, 130, 140, 0.8], [300, 200, 310, 210, 0.6]]], np.float32
)


def changed(candidate, reference=FOUND, columns=(0, 1, 2, 3)):
    counted = by_boxes(reference, candidate, columns)
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
    assert changed(FOUND[:, :0], FOUND[:, :0]) == (0, 1)


def test_rows_of_zeros_are_padding():
    nothing, ghost = np.zeros((1, 300, 5), np.float32), np.zeros((1, 300, 5), np.float32)
    assert changed(nothing, nothing) == (0, 1)
    ghost[:, 0] = FOUND[:, 0]
    assert changed(ghost, nothing) == changed(nothing, ghost) == (1, 1)
    ghost[:, 0, 4] = 0.01
    assert changed(ghost, nothing) == (0, 1)


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
    assert changed(moved, faint) == (0, 1)
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


def test_the_best_class_changes():
    boxes = FOUND[..., :4]
    scores = np.array([[[0.5, 0.42], [0.9, 0.1], [0.301, 0.3]]], np.float32)
    swapped = np.concatenate([boxes, scores[..., ::-1]], axis=2)
    assert changed(swapped, np.concatenate([boxes, scores], axis=2)) == (2, 3)


def test_landmarks_in_pixels_are_no_scores():
    eyes = FOUND[..., :2] + 7.3
    faces = np.concatenate([FOUND, eyes], axis=2)
    assert changed(np.concatenate([FOUND, eyes + 0.4], axis=2), faces) == (0, 3)
    assert changed(np.concatenate([FOUND, eyes + 40], axis=2), faces) == (3, 3)


def test_a_sample_without_detections_is_right_on_both_sides():
    counted = by_boxes(FOUND[:, :0], FOUND[:, :0], ())
    assert (counted.samples, counted.decisions, counted.changed) == (1, 1, 0)


ENDED = np.concatenate([FOUND, [[[7], [0], [7]]]], axis=-1).astype(np.float32)


def test_rows_that_are_known_by_their_values():
    assert are_boxes(ENDED)
    assert are_boxes(ENDED[:, ::-1])
    assert are_boxes(np.zeros((2, 3, 6)))
    assert are_boxes(ENDED[:, :0])
    assert not are_boxes(FOUND)
    assert not are_boxes(ENDED[0])


@pytest.mark.parametrize(("column", "value"), [(0, 60), (4, 1.5), (4, np.nan), (5, 0.5)], ids=str)
def test_rows_that_are_something_else(column, value):
    other = ENDED.copy()
    other[0, 0, column] = value
    assert not are_boxes(other)


def test_an_angle_is_seen_beside_what_it_varies_by():
    turned = np.insert(FOUND, 4, [30.5, -70.2, 90.1], axis=2)
    other = turned.copy()
    other[0, 1, 4] += 3
    assert changed(other, turned) == (0, 3)
    other[0, 1, 4] = 0
    assert changed(other, turned) == (1, 3)
