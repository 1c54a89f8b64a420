"""Labels: how they are read, what counts as right, and what is refused."""

import numpy as np
import pytest

from tfmp.converters.drift.exact import merge, total
from tfmp.converters.drift.labels import label_drift, label_kind, measure_labels
from tfmp.converters.shared.errors import InputError

SOFTMAX = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
LOGITS = np.array([[7.0, 2.0, -1.0], [1.0, 8.0, 1.0]])
SIGMOIDS = np.array([[0.9, 0.8, 0.1], [0.2, 0.1, 0.3]])


@pytest.mark.parametrize(
    ("labels", "output", "kind"),
    [
        (np.array([0, 1]), SOFTMAX, "class ids"),
        (np.array([[0], [1]]), LOGITS, "class ids"),
        (np.array([0, 1], np.uint8), LOGITS, "class ids"),
        (np.eye(3)[:2], SOFTMAX, "one-hot"),
        (np.eye(3)[:2], LOGITS, "one-hot"),
        (np.eye(3)[:2], SIGMOIDS, "multi-label"),
        (np.array([[1, 1, 0], [0, 0, 0]]), SIGMOIDS, "multi-label"),
        (np.array([1, 0]), np.array([[0.9], [0.2]]), "binary"),
        (np.array([[1.0], [0.0]]), np.array([0.9, 0.2]), "binary"),
        (np.array([3, 4]), np.array([3, 5]), "class ids"),
        (np.array([1.5, 2.5]), np.array([[1.0], [2.0]]), "regression"),
        (np.ones((2, 4)), np.full((2, 4), 3.0), "regression"),
    ],
)
def test_kind(labels, output, kind) -> None:
    if kind == "regression" and output.shape == (2, 4):
        labels = labels * 2.5
    assert label_kind(labels, output, "y") == kind


def test_labels_that_fit_nothing_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        label_kind(np.zeros((2, 7)), SOFTMAX, "probs")
    assert str(caught.value) == (
        "labels do not fit output 'probs' of shape (batch, 3): received float64 of shape "
        "(batch, 7); expected class ids (integers, one per sample), one-hot or multi-label rows "
        "(zeros and ones, one column per class) or regression targets (the output's shape). Pass "
        "labels in one of these forms, or leave them out."
    )


def test_multi_label_rows_need_probabilities() -> None:
    with pytest.raises(
        InputError, match="multi-label, but the output's values are not independent"
    ):
        label_kind(np.array([[1, 1, 0], [0, 0, 0]]), LOGITS, "y")


def count(kind, labels, reference, candidate):
    return measure_labels(kind, np.asarray(labels), reference, candidate, "y")


@pytest.mark.parametrize(
    ("kind", "labels"), [("class ids", [0, 0]), ("one-hot", [[1, 0, 0], [1, 0, 0]])]
)
def test_lost_and_gained(kind, labels) -> None:
    swapped = SOFTMAX[::-1]
    found = count(kind, labels, SOFTMAX, swapped)
    assert (found.samples, found.both, found.lost, found.gained) == (2, 0, 1, 1)
    drift = label_drift("y", kind, found)
    assert (drift.metric, drift.reference, drift.candidate) == ("accuracy", 0.5, 0.5)
    assert (drift.lost, drift.gained, drift.mcnemar_p) == (1, 1, 1.0)


def test_a_multi_label_sample_is_right_when_every_label_is() -> None:
    found = count("multi-label", [[1, 1, 0], [0, 0, 1]], SIGMOIDS, SIGMOIDS)
    assert (found.samples, found.both) == (2, 1)


def test_binary() -> None:
    probabilities = np.array([[0.9], [0.2]])
    found = count("binary", [1, 0], probabilities, 1 - probabilities)
    assert (found.both, found.lost, found.gained) == (0, 2, 0)


def test_a_row_with_nan_names_no_class() -> None:
    broken = SOFTMAX.copy()
    broken[0, 0] = np.nan  # argmax gives 0, which is the label
    assert count("class ids", [0, 1], SOFTMAX, broken).lost == 1


def test_class_ids_beyond_the_output_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        count("class ids", [0, 3], SOFTMAX, SOFTMAX)
    assert str(caught.value) == (
        "labels for output 'y' hold class id 3, but the output has 3 classes: ids 0 to 2 were "
        "expected. Check that labels and model use the same class list."
    )


def test_one_hot_rows_must_stay_one_hot() -> None:
    with pytest.raises(InputError, match="began as one-hot rows, but a later row does not"):
        count("one-hot", [[1, 0, 0], [0, 0, 0]], SOFTMAX, SOFTMAX)


def test_regression_errors_by_hand() -> None:
    # Errors of the reference 1 and 0, of the candidate 2 and 0.5.
    found = count("regression", [1.0, 2.0], np.array([[2.0], [2.0]]), np.array([[3.0], [2.5]]))
    assert (total(found.reference_error), total(found.candidate_error)) == (1.0, 2.5)
    assert total(found.change_sq) == 1.25
    drift = label_drift("y", "regression", found)
    assert (drift.metric, drift.reference, drift.candidate) == ("mean absolute error", 0.5, 1.25)
    assert (drift.lost, drift.gained, drift.mcnemar_p) == (None, None, None)


def test_batches_merge_to_the_whole() -> None:
    generator = np.random.default_rng(0)
    labels = generator.standard_normal((40, 3))
    reference, candidate = labels + 0.1, labels + generator.standard_normal((40, 3))
    whole = count("regression", labels, reference, candidate)
    parts = [slice(0, 7), slice(7, 31), slice(31, 40)]
    found = [count("regression", labels[p], reference[p], candidate[p]) for p in parts]
    assert merge(found[2], merge(found[0], found[1])) == whole
