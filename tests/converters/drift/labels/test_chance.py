"""Labels in another order than the samples are told; those that a model predicts, however badly,
are not."""

import numpy as np
import pytest
from label_runs import compared

from tfmp.converters.drift import no_better_than_chance, with_metrics

N = 400
rng = np.random.default_rng(0)
CLASSES = rng.integers(0, 10, N)
RARE = (rng.random(N) < 0.08).astype(np.int64)
NUMBERS = rng.normal(100, 3, (N, 2))


def told(labels, output) -> str | None:
    output = np.asarray(output, np.float32)
    return no_better_than_chance(with_metrics(compared(labels, output, output)))


def scores(classes, quality) -> np.ndarray:
    """Logits whose right class is larger by `quality`."""
    return rng.standard_normal((len(classes), 10)) + quality * np.eye(10)[classes]


def yes(labels, quality) -> np.ndarray:
    """Probabilities, hardly one of which is above a half."""
    logits = rng.standard_normal((len(labels), 1)) + quality * labels[:, None] - 3
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize(
    ("labels", "output", "sentence"),
    [
        (np.roll(CLASSES, 1), scores(CLASSES, 5), "of its answers are right"),
        ((CLASSES + 1) % 10, scores(CLASSES, 5), "number the classes as the model does?"),
        (np.roll(RARE, 1), yes(RARE, 2), "its ROC AUC is 0."),
        (np.roll(NUMBERS, 1, axis=0), NUMBERS, "in the model's units?"),
        (NUMBERS / 100, NUMBERS, "their standard deviation only 0.0"),
    ],
    ids=["shuffled classes", "classes from 1", "shuffled yes and no", "shuffled", "other units"],
)
def test_labels_that_the_reference_does_not_predict(labels, output, sentence) -> None:
    assert sentence in told(labels, output)
    assert told(labels, output).startswith("the labels of output 'y' do not measure drift")


@pytest.mark.parametrize(
    ("labels", "output"),
    [
        (CLASSES, scores(CLASSES, 0.7)),
        (RARE, yes(RARE, 1)),
        (NUMBERS, NUMBERS + rng.normal(0, 2, NUMBERS.shape)),
        (np.roll(CLASSES, 1)[:20], scores(CLASSES[:20], 5)),
        (RARE, np.tile([2.0, 1.0], (N, 1))),
    ],
    ids=["weak classifier", "weak yes or no", "weak numbers", "few samples", "one class alone"],
)
def test_weak_predictions_and_few_samples_are_none_of_its_business(labels, output) -> None:
    assert told(labels, output) is None
