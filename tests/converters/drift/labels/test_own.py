"""A user's metric of all samples and its jackknife, and what happens where it fails."""

import math

import numpy as np
import pytest
from label_runs import compared, metrics_of
from sklearn.metrics import roc_auc_score

from tfmp.converters.drift import CustomMetric
from tfmp.converters.drift.labels.drift import with_metrics
from tfmp.converters.shared.errors import InputError


def accuracy(predictions, labels):
    return float((predictions.argmax(axis=1) == labels).mean())


def right(predictions, labels):
    return predictions.argmax(axis=1) == labels


def auc(predictions, labels):
    return roc_auc_score(labels, predictions[:, 0])


def error(predictions, labels):
    return float(np.abs(predictions[:, 0] - labels).mean())


error.lower_is_better = True


def run(samples=300, noise=0.5):
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 4, samples)
    scores = rng.standard_normal((samples, 4)) + 2 * np.eye(4)[labels]
    return labels, scores, scores + noise * rng.standard_normal(scores.shape)


def own(metric, *arguments, **others):
    return metrics_of(*arguments, metrics=(CustomMetric.of(metric),), **others)


def test_numbers_by_sample_need_no_resamples_and_keep_no_predictions() -> None:
    labels, *outputs = run()
    order = [np.arange(100), np.arange(100, 300)]
    drift = compared(labels, *outputs, order=order, metrics=(CustomMetric.of(right),))
    assert drift.totals.kept.nbytes == 0
    (each,) = with_metrics(drift).metrics
    assert (each.name, each.resamples, each.degrees) == ("right", 0, 299)
    change = np.subtract(*(right(output, labels).astype(float) for output in outputs))
    assert each.worse == pytest.approx(change.mean())
    assert each.standard_error == pytest.approx(change.std(ddof=1) / math.sqrt(300))


@pytest.mark.parametrize("metric", [accuracy, right])
def test_equal_predictions_of_few_samples_prove_little(metric) -> None:
    labels, scores, _ = run(100)
    (found,) = own(metric, labels, scores, scores).values()
    assert found.standard_error == 0
    assert found.lower == 0
    assert 0.01 < found.upper < 0.03
    (found,) = own(metric, *[each[:1] for each in (labels, scores, scores)]).values()
    assert found.upper > 0.5


def test_groups_without_a_value_are_left_out() -> None:
    rng = np.random.default_rng(0)
    labels = np.zeros(80, int)
    labels[0] = 1  # without its group there is no positive
    scores = labels[:, None] + 0.4 * rng.standard_normal((80, 1))
    found = own(auc, labels, scores, scores + 0.1 * rng.standard_normal((80, 1)))["auc"]
    assert found.standard_error is not None
    assert (found.degrees, found.resamples) == (62, 64)


def fails(predictions, labels):
    raise ValueError("no words")


def undefined(predictions, labels):
    return math.nan


def misspelled(predictions, labels):
    return predictions.arg_max()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (fails, "raised ValueError: no words at .* These are the reference's predictions"),
        (undefined, "gives nan for the reference: nothing can be compared with it"),
    ],
)
def test_a_function_that_fails_on_the_reference_is_the_users_mistake(metric, message) -> None:
    with pytest.raises(InputError, match=message):
        own(metric, *run())


def test_a_mistake_is_told_at_the_first_batch() -> None:
    with pytest.raises(InputError, match=r"has no attribute 'arg_max'.*Fix the function"):
        compared(*run(), metrics=(CustomMetric.of(misspelled),))


def test_a_function_that_fails_on_the_candidate_only_is_a_finding() -> None:
    labels, scores, _ = run()
    labels = (labels > 1).astype(int)
    found = own(auc, labels, scores, np.full_like(scores, np.nan))["auc"]
    assert "raised ValueError: Input contains NaN" in found.error
    assert math.isnan(found.candidate)


def sometimes(predictions, labels):
    return right(predictions, labels) if len(labels) > 100 else 0.5


def test_one_form_throughout() -> None:
    order = [np.arange(200), np.arange(200, 300)]
    with pytest.raises(InputError, match="a number for each sample of some batches, and not of"):
        compared(*run(), order=order, metrics=(CustomMetric.of(sometimes),))
