"""Answers against labels, batch by batch: what is counted, refused, and merged."""

import numpy as np
import pytest
from judged_distances import OutputAccumulator
from label_runs import compared, keys_of

from tfmp.converters.drift import CustomMetric, DriftBudget
from tfmp.converters.drift.exact import total
from tfmp.converters.drift.labels.drift import kinds_of, label_drift, with_metrics
from tfmp.converters.drift.labels.measuring import measure_labels
from tfmp.converters.drift.labels.reading import kind_of, read_labels
from tfmp.converters.drift.labels.totals import LabelTotals, add_labels
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.verdict.answers import label_checks
from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.shared.errors import InputError

SOFTMAX = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])


def test_labels_of_nan_are_not_known() -> None:
    labels = np.array([[1, np.nan, 0], [np.nan] * 3, [0, 0, np.nan]])
    answers = np.array([[0.9, 0.1, 0.8], [0.2] * 3, [0.1, 0.7, 0.1]])
    drift = compared(labels, answers, answers, task="multilabel")
    assert (drift.kind, drift.samples, drift.reference) == ("multi-label", 2, 2 / 4)
    drift = compared(labels * 4, answers * 4, answers * 4 + 1)
    assert (drift.kind, drift.samples) == ("regression", 2)
    assert np.allclose([drift.reference, drift.candidate], [1.7, 2.5])
    assert compared(np.array([np.nan, 3.5]), answers[:2, 0], answers[:2, 0]).samples == 1


def test_fractions_are_no_class_ids() -> None:
    with pytest.raises(InputError, match=r"'y' hold 0[.]5, which is no class id"):
        measure_labels("class ids", np.array([0, 0.5]), SOFTMAX, SOFTMAX, "y", keys_of(2))


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


def test_labels_of_yes_and_no_lie_between_them() -> None:
    labels = np.array([[0.0], [1.0], [7.0]])
    order = [np.arange(2), np.arange(2, 3)]
    with pytest.raises(InputError, match=r"are of binary answers and hold 7\.0; expected zeros"):
        compared(labels, labels, labels, order=order, task="binary")


def test_zeros_and_ones_of_an_unknown_output_are_numbers_that_say_nothing_of_it() -> None:
    labels = np.array([[0.0], [1.0], [1.0], [3.0]])
    for count, known in ((3, {}), (4, {"y": "regression"})):
        found = compared(labels[:count], labels[:count] / 10, labels[:count] / 10)
        assert (found.kind, kinds_of([found])) == ("regression", known)


def test_labels_that_change_their_shape_are_refused() -> None:
    found = compared(np.array([0, 1]), SOFTMAX, SOFTMAX).totals
    other = compared(np.eye(3)[:2], SOFTMAX, SOFTMAX, task="classification").totals
    with pytest.raises(InputError, match="read as class ids first and as one-hot later"):
        add_labels(found, other)


def test_regression_errors_by_hand() -> None:
    # Errors of the reference 1 and 0, of the candidate 2 and 0.5.
    candidate = np.array([[3.0], [2.5]])
    drift = compared(np.array([1.0, 2.0]), np.array([[2.0], [2.0]]), candidate)
    found = drift.totals
    assert (total(found.reference_error), total(found.candidate_error)) == (1.0, 2.5)
    assert (drift.metric, drift.reference, drift.candidate) == ("mean absolute error", 0.5, 1.25)
    assert (drift.lost, drift.gained) == (None, None)


def error(predictions, labels):
    return float(np.abs(predictions[:, 0] - labels).mean())


def runs(rng: np.random.Generator):
    """Labels and outputs of every kind, and what is known of the output."""
    scores = rng.standard_normal((60, 7)).astype(np.float32)
    dense = rng.standard_normal((60, 3, 4, 5)).astype(np.float32)
    tags = (rng.random((60, 7)) < 0.3).astype(np.int8)
    yield rng.integers(0, 7, 60), scores, {}
    yield np.eye(7)[rng.integers(0, 7, 60)], scores, {"task": "classification"}
    yield rng.integers(-1, 5, (60, 3, 4)), dense, {}
    yield tags, scores, {"task": "multilabel"}
    yield rng.standard_normal((60, 7)), scores, {}
    yield (scores[:, :1] > 0).astype(int), scores[:, :1], {"task": "binary"}
    yield rng.integers(0, 7, 60), scores, {"metrics": (CustomMetric.of(error),)}


@pytest.mark.parametrize("index", range(7))
def test_any_split_order_and_merge_gives_the_same_bits(index) -> None:
    rng = np.random.default_rng(index)
    labels, reference, known = list(runs(rng))[index]
    candidate = (reference + 0.3 * rng.standard_normal(reference.shape)).astype(np.float32)
    keys = keys_of(len(labels))
    keys[50:] = keys[:10]  # repeated samples
    whole = compared(labels, reference, candidate, keys=keys, **known)
    order = np.split(rng.permutation(len(labels)), [1, 8, 30, 31])
    split = compared(labels, reference, candidate, keys=keys, order=order, **known)
    assert repr(with_metrics(split)) == repr(with_metrics(whole))
    merged = LabelTotals()
    for part in order[::-1]:
        sides = labels[part], reference[part], candidate[part]
        merged = add_labels(merged, compared(*sides, keys=keys[part], **known).totals)
    assert repr(with_metrics(label_drift("y", whole.kind, merged))) == repr(with_metrics(whole))
    assert {each.samples for each in with_metrics(whole).metrics} == {50}


@pytest.mark.parametrize("width", [1, 2])
def test_labels_of_a_sigmoid_that_are_shares_make_it_a_number(width) -> None:
    """Zeros and ones come first, by chance: all labels decide."""
    shares = np.repeat([[0.0], [1.0], [0.2], [0.7]], width, axis=1)
    task = Task(Kind.BINARY if width == 1 else Kind.MULTILABEL, why="its last operation is sigmoid")
    totals, outputs = LabelTotals(), OutputAccumulator("y", task=task)
    for rows in (slice(2), slice(2, None)):
        reading = read_labels(shares[rows], shares[rows], "y", task)
        sides = shares[rows], shares[rows], shares[rows] + 0.1
        totals = add_labels(totals, measure_labels(reading, *sides, "y", keys_of(4)[rows]))
        outputs.update(*sides[1:])
        found = label_drift("y", kind_of(reading), totals)
        drift = outputs.result(labels=kinds_of([found]).get("y"))
        decided = reading if rows.start is None else "regression"
        assert (found.kind, drift.task.kind == "regression") == (decided, decided == "regression")
    assert found.candidate == pytest.approx(0.1)
    declared = measure_labels(reading, *sides, "y", keys_of(2), declared=True)
    assert label_drift("y", kind_of(reading), declared).kind == reading


SCORES = np.linspace(0.5, 0.9, 400, dtype=np.float32)[:, None]
LABELS = np.arange(400)
OWN = {"metrics": (CustomMetric.of(lambda predictions, labels: predictions[:, 0]),)}


def with_nan(*rows: int) -> np.ndarray:
    scores = SCORES.copy()
    scores[list(rows)] = np.nan
    return scores


def test_a_reference_without_a_value_is_refused() -> None:
    with pytest.raises(InputError, match=r"gives nan for a sample of the reference.*both models"):
        compared(LABELS, with_nan(3), SCORES, **OWN)


def test_a_candidate_without_a_value_fails() -> None:
    (check,) = label_checks(compared(LABELS, SCORES, with_nan(3), **OWN), DriftBudget())
    assert check.verdict is Verdict.FAIL
    assert "it is NaN or infinite for some samples of the candidate" in check.text
