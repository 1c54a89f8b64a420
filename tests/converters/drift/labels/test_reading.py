"""The reading of labels: what fits, what is refused, and what labels say of an output."""

import numpy as np
import pytest

from tfmp.converters.drift.labels.reading import (
    read_labels,
    task_of_reading,
)
from tfmp.converters.drift.tasks import Task
from tfmp.converters.shared.errors import InputError

SOFTMAX = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
LOGITS = np.array([[7.0, 2.0, -1.0], [1.0, 8.0, 1.0]])
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
