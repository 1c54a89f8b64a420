"""The reading of labels: what fits, what is refused, and what labels say of an output."""

from dataclasses import replace

import numpy as np
import pytest

from tfmp.converters.drift.labels.reading import (
    class_axis,
    read_labels,
    task_of_reading,
    unread_places,
)
from tfmp.converters.drift.tasks import Task
from tfmp.converters.shared.errors import InputError

SOFTMAX = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
LOGITS = np.array([[7.0, 2.0, -1.0], [1.0, 8.0, 1.0]])
SIGMOIDS = np.array([[0.9, 0.8, 0.1], [0.2, 0.1, 0.3]])
PIXELS = np.zeros((2, 5, 6, 3))
CHANNELS_FIRST = np.zeros((2, 3, 5, 6))


@pytest.mark.parametrize(
    ("labels", "output", "reading"),
    [
        (np.array([0, 1]), SOFTMAX, "class ids"),
        (np.array([[0], [1]]), LOGITS, "class ids"),
        (np.array([0, 1], np.uint8), LOGITS, "class ids"),
        (np.zeros((2, 5, 6), int), PIXELS, "class ids along axis 3"),
        (np.zeros((2, 5, 6, 1), np.uint8), PIXELS, "class ids along axis 3"),
        (np.zeros((2, 5, 6), int), CHANNELS_FIRST, "class ids along axis 1"),
        (np.zeros((2, 7), int), np.zeros((2, 7, 9)), "class ids along axis 2"),
        (np.zeros((2, 7), int), np.zeros((2, 7, 7)), "class ids along axis 2"),
        (np.array([3, 4]), np.array([3, 5]), "ids of the output itself"),
        (np.zeros((2, 5, 6), int), np.zeros((2, 5, 6), int), "ids of the output itself"),
        (np.eye(3)[:2], SOFTMAX, "regression"),
        (np.zeros((2, 5, 6), int), np.zeros((2, 5, 6, 1)), "regression"),
        (np.array([1, 0]), np.array([[0.9], [0.2]]), "regression"),
        (np.array([[1.0], [0.0]]), np.array([0.9, 0.2]), "regression"),
    ],
)
def test_readings_follow_from_shapes(labels, output, reading) -> None:
    assert read_labels(labels, output, "y") == reading


@pytest.mark.parametrize(
    ("labels", "output", "task", "reading"),
    [
        (np.zeros((2, 7), int), np.zeros((2, 7, 7)), "classification:axis=1", "axis 1"),
        (np.eye(3)[:2], SIGMOIDS, "classification", "one-hot"),
        (np.array([0.0, 2.0]), SOFTMAX, "classification", "class ids"),
        (np.array([[0.0], [2.0]]), SOFTMAX, "classification", "class ids"),
        (np.eye(3)[:2], SOFTMAX, "multilabel", "multi-label"),
        (np.eye(3)[:2], SOFTMAX, "regression", "regression"),
        (np.eye(3)[:2], SOFTMAX, "reconstruction", "regression"),
        (np.array([1, 0]), np.array([[5.0], [2.0]]), "binary", "binary"),
        (np.array([1, 0]), np.array([[5.0], [2.0]]), "regression", "regression"),
    ],
)
def test_what_is_known_of_the_output_decides(labels, output, task, reading) -> None:
    declared = Task.of(task, "y")
    assert read_labels(labels, output, "y", declared).endswith(reading)
    read = replace(declared, why="the model was compiled with a loss")
    assert read_labels(labels, output, "y", read).endswith(reading)


@pytest.mark.parametrize(
    ("labels", "task", "expected"),
    [
        (np.zeros((2, 7)), None, "expected class ids (integers, one per sample, pixel or token)"),
        (np.zeros((2, 7)), "classification", "declared as classification, and expected class"),
        (np.zeros((2, 7)), "multilabel", "declared as multilabel, and expected zeros and ones"),
        (np.array([0, 1]), "regression", "declared as regression, and expected numbers of the"),
        (np.zeros((2, 3)), "detection", "no metric here but one of your own"),
        (np.array([["a"], ["b"]]), None, "expected class ids"),
    ],
)
def test_labels_that_fit_nothing_are_refused(labels, task, expected) -> None:
    with pytest.raises(InputError) as caught:
        read_labels(labels, SOFTMAX, "probs", task and Task.of(task, "probs"))
    text = str(caught.value)
    assert text.startswith("labels do not fit output 'probs' of shape (batch, 3): received ")
    assert expected in text
    assert text.endswith("declare a metric of your own, or leave the labels out.")


@pytest.mark.parametrize(
    ("labels", "output", "expected"),
    [
        (np.array([0, 1]), SOFTMAX, "classification"),
        (np.zeros((2, 5, 6), int), CHANNELS_FIRST, "classification:axis=1"),
        (np.array([3, 4]), np.array([3, 5]), "ids"),
        (np.eye(3)[:2], LOGITS, "None"),
    ],
)
def test_labels_say_what_an_output_means(labels, output, expected) -> None:
    assert str(task_of_reading(read_labels(labels, output, "y"))) == expected


def test_the_axis_of_the_classes() -> None:
    assert class_axis("class ids along axis 1", 4) == 1
    assert class_axis("class ids", 2) == 1


def test_answers_that_are_neither_yes_nor_no():
    labels = np.array([[1, 0, -100], [0, 255, 1]])
    output = np.zeros((2, 3, 1), np.float32)
    unread = unread_places("multi-label", labels, output)
    assert unread[..., 0].tolist() == [[False, False, True], [False, True, False]]
    assert unread_places("regression", labels, output) is None
