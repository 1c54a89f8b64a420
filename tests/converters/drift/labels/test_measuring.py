"""Answers against labels, batch by batch: what is counted, refused, and merged."""

from dataclasses import replace

import numpy as np
import pytest
from label_runs import compared, keys_of

from tfmp.converters.drift.exact import total
from tfmp.converters.drift.labels.drift import label_drift, with_metrics
from tfmp.converters.drift.labels.measuring import measure_labels
from tfmp.converters.drift.labels.totals import LabelTotals, add_labels
from tfmp.converters.shared.errors import InputError

SOFTMAX = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
SIGMOIDS = np.array([[0.9, 0.8, 0.1], [0.2, 0.1, 0.3]])


@pytest.mark.parametrize("labels", [[0, 0], [[0], [0]], [[1, 0, 0], [1, 0, 0]]])
def test_lost_and_gained(labels) -> None:
    drift = compared(np.array(labels), SOFTMAX, SOFTMAX[::-1])
    assert (drift.metric, drift.reference, drift.candidate) == ("accuracy", 0.5, 0.5)
    assert (drift.lost, drift.gained, drift.mcnemar_p) == (1, 1, 1.0)
    assert (drift.totals.both, drift.totals.lost, drift.totals.gained) == (0, 1, 1)


def test_of_equal_scores_the_first_class_is_the_better() -> None:
    labels, equal = np.arange(8), np.zeros((8, 8))
    drift = with_metrics(compared(labels, equal, equal))
    found = {each.name: each.reference for each in drift.metrics}
    assert (found["accuracy"], found["top-5 accuracy"]) == (1 / 8, 5 / 8)


def test_multi_label_answers_are_right_one_by_one() -> None:
    labels = np.array([[1, 1, 0], [0, 0, 1]])
    worse = SIGMOIDS.copy()
    worse[0, 0] = 0.1
    drift = compared(labels, SIGMOIDS, worse)
    assert (drift.kind, drift.reference, drift.candidate) == ("multi-label", 5 / 6, 4 / 6)
    assert (drift.lost, drift.mcnemar_p) == (None, None)


def test_multi_label_logits_are_decided_by_their_sign() -> None:
    labels = np.array([[1, 1, 0], [0, 0, 1]])
    drift = compared(labels, SIGMOIDS * 6 - 3, SIGMOIDS * 6 - 3)
    assert (drift.kind, drift.reference) == ("multi-label", 5 / 6)


def test_pixels_without_a_class_are_left_out() -> None:
    scores = np.zeros((2, 2, 2, 3))
    scores[..., 1] = 1
    labels = np.array([[[1, 1], [255, -1]], [[0, 1], [-100, 1]]])
    drift = compared(labels, scores, scores)
    assert (drift.kind, drift.samples) == ("class ids", 2)
    assert (drift.totals.by_class.labelled, drift.reference) == (5, 4 / 5)


def test_a_nan_names_no_class_and_lies_on_no_side() -> None:
    broken = SOFTMAX.copy()
    broken[0, 0] = np.nan  # argmax gives 0, which is the label
    assert compared(np.array([0, 1]), SOFTMAX, broken).lost == 1
    broken = SIGMOIDS.copy()
    broken[0, 2] = np.nan  # not over 0.5, and the label is 0
    assert compared(np.array([[1, 1, 0], [0, 0, 0]]), SIGMOIDS, broken).candidate == 5 / 6


def test_labels_of_nan_are_not_known() -> None:
    labels = np.array([[1, np.nan, 0], [np.nan] * 3, [0, 0, np.nan]])
    answers = np.array([[0.9, 0.1, 0.8], [0.2] * 3, [0.1, 0.7, 0.1]])
    drift = compared(labels, answers, answers)
    assert (drift.kind, drift.samples, drift.reference) == ("multi-label", 2, 2 / 4)
    drift = compared(labels * 4, answers * 4, answers * 4 + 1)
    assert (drift.kind, drift.samples) == ("regression", 2)
    assert np.allclose([drift.reference, drift.candidate], [1.7, 2.5])
    assert compared(np.array([np.nan, 3.5]), answers[:2, 0], answers[:2, 0]).samples == 1


def test_fractions_are_no_class_ids() -> None:
    with pytest.raises(InputError, match=r"'y' hold 0[.]5, which is no class id"):
        measure_labels("class ids", np.array([0, 0.5]), SOFTMAX, SOFTMAX, "y")


@pytest.mark.parametrize(
    ("labels", "output", "wrong", "classes", "rest"),
    [
        (np.array([0, 3]), SOFTMAX, 3, 3, ""),
        (np.array([0, -1]), SOFTMAX, -1, 3, ""),
        (np.full((2, 4), 9), np.zeros((2, 4, 5)), 9, 5, ", and numbers below 0 or 255 where no"),
    ],
)
def test_class_ids_beyond_the_output_are_refused(labels, output, wrong, classes, rest) -> None:
    with pytest.raises(InputError) as caught:
        compared(labels, output, output)
    assert str(caught.value).startswith(
        f"labels for output 'y' hold class id {wrong}, but the output has {classes} classes: ids 0 "
        f"to {classes - 1} were expected{rest}"
    )


def test_declared_kinds_are_held() -> None:
    with pytest.raises(InputError, match="a row does not hold exactly one 1"):
        compared(np.array([[1, 0, 0], [1, 1, 0]]), SOFTMAX, SOFTMAX, task="classification")
    labels = np.concatenate([np.zeros((2, 1)), np.full((2, 1), 0.5)])
    order = [np.arange(2), np.arange(2, 4)]
    with pytest.raises(InputError, match="declared as binary and hold numbers other than 0 and 1"):
        compared(labels, labels, labels, order=order, task="binary")


def test_one_label_for_each_sample() -> None:
    with pytest.raises(InputError, match="1 came with a batch of 2 samples"):
        compared(np.array([0]), SOFTMAX, SOFTMAX, keys=keys_of(2), order=[slice(None)])


class TestReadingsOfAllBatches:
    """The first batch may hold zeros and ones, or values in [0, 1], by chance."""

    def halves(self, labels, output, **others):
        middle = len(labels) // 2
        order = [np.arange(middle), np.arange(middle, len(labels))]
        return [compared(labels, output, output, order=way, **others) for way in (order, None)]

    def test_numbers_that_begin_with_zeros_and_ones(self) -> None:
        labels = np.array([[0.0], [1.0], [7.0], [3.0]])
        first, whole = self.halves(labels, labels / 10)
        assert first.kind == "regression"
        assert first == whole

    def test_logits_that_begin_in_the_unit_interval(self) -> None:
        labels = np.array([[0], [1], [0], [1]])
        first, whole = self.halves(labels, np.array([[0.2], [0.3], [-4.0], [5.0]]))
        # By the sign the first sample is wrong; by 0.5 the second would be.
        assert (first.kind, first.reference) == ("binary", 3 / 4)
        assert first.totals.by_half.rows == whole.totals.by_half.rows
        assert first == whole

    def test_tags_that_begin_with_one_each(self) -> None:
        labels = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
        first, whole = self.halves(labels, np.array([[4.0, -1, -2]] * 4))
        assert first.kind == "multi-label"
        assert first == whole

    def test_evidence_for_a_reading_that_is_ruled_out_is_dropped(self) -> None:
        labels = np.array([[0], [1], [0], [1]])
        output = np.array([[0.2], [0.3], [-4.0], [5.0]])
        first, whole = self.halves(labels, output)
        for found in (first, whole):
            assert found.totals.by_half.labelled == 0
            assert found.totals.by_sign.labelled == 4

    def test_one_hot_rows_throughout(self) -> None:
        first, whole = self.halves(np.eye(3)[[0, 1, 2, 2]], np.array([[4.0, -1, -2]] * 4))
        assert (first.kind, first.reference) == ("one-hot", 1 / 4)
        assert first == whole

    def test_soft_labels_are_numbers(self) -> None:
        labels = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.2, 0.8]])
        first, whole = self.halves(labels, labels)
        assert first.kind == "regression"
        assert first == whole

    def test_labels_that_change_their_shape_are_refused(self) -> None:
        found = compared(np.array([0, 1]), SOFTMAX, SOFTMAX).totals
        other = compared(np.eye(3)[:2], SOFTMAX, SOFTMAX).totals
        with pytest.raises(InputError, match="read as class ids first and as rows later"):
            add_labels(found, other)


def test_regression_errors_by_hand() -> None:
    # Errors of the reference 1 and 0, of the candidate 2 and 0.5.
    candidate = np.array([[3.0], [2.5]])
    drift = compared(np.array([1.0, 2.0]), np.array([[2.0], [2.0]]), candidate)
    found = drift.totals
    assert (total(found.reference_error), total(found.candidate_error)) == (1.0, 2.5)
    assert total(found.change_sq) == 1.25
    assert (drift.metric, drift.reference, drift.candidate) == ("mean absolute error", 0.5, 1.25)
    assert (drift.lost, drift.gained, drift.mcnemar_p) == (None, None, None)


def runs(rng: np.random.Generator):
    """Labels and outputs of every kind."""
    scores = rng.standard_normal((60, 7)).astype(np.float32)
    dense = rng.standard_normal((60, 3, 4, 5)).astype(np.float32)
    pixels = rng.integers(-1, 5, (60, 3, 4))
    tags = (rng.random((60, 7)) < 0.3).astype(np.int8)
    yield "ids", rng.integers(0, 7, 60), scores
    yield "one-hot", np.eye(7)[rng.integers(0, 7, 60)], scores
    yield "pixels", pixels, dense
    yield "tags", tags, scores
    yield "numbers", rng.standard_normal((60, 7)), scores
    yield "binary", (scores[:, :1] > 0).astype(int), scores[:, :1]
    yield "counts", rng.integers(0, 4, (60, 1)), scores[:, :1]


@pytest.mark.parametrize("index", range(7))
def test_any_split_order_and_merge_gives_the_same_bits(index) -> None:
    rng = np.random.default_rng(index)
    name, labels, reference = list(runs(rng))[index]
    candidate = (reference + 0.3 * rng.standard_normal(reference.shape)).astype(np.float32)
    keys = keys_of(len(labels))
    keys[50:] = keys[:10]  # repeated samples
    whole = compared(labels, reference, candidate, keys=keys)
    shuffled = rng.permutation(len(labels))
    order = np.split(shuffled, [1, 8, 30, 31])
    split = compared(labels, reference, candidate, keys=keys, order=order)
    assert repr(with_metrics(split)) == repr(with_metrics(whole)), name
    shards = [compared(labels[p], reference[p], candidate[p], keys=keys[p]).totals for p in order]
    merged = LabelTotals()
    for shard in shards[::-1]:
        merged = add_labels(merged, shard)
    assert repr(with_metrics(label_drift("y", whole.kind, merged))) == repr(with_metrics(whole))


def test_without_keys_there_is_accuracy_and_nothing_by_sample() -> None:
    totals = measure_labels("class ids", np.array([0, 1]), SOFTMAX, SOFTMAX[::-1], "y")
    found = with_metrics(label_drift("y", "class ids", totals)).metrics
    assert [(each.name, each.reference, each.candidate) for each in found] == [("accuracy", 1, 0)]


def test_totals_of_an_old_report_are_judged_but_not_mixed_with_new_ones() -> None:
    old = LabelTotals(100, 90, 3, 1)
    drift = with_metrics(label_drift("y", "class ids", old))
    (metric,) = drift.metrics
    assert (metric.reference, metric.candidate, metric.lost, metric.gained) == (0.93, 0.91, 3, 1)
    new = compared(np.array([0, 1]), SOFTMAX, SOFTMAX).totals
    for pair in ((old, new), (new, old)):
        with pytest.raises(InputError, match="answers against labels of an older report"):
            add_labels(*pair)
    assert add_labels(old, replace(old, lost=0)).lost == 3
