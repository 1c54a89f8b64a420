"""Metrics of right and wrong answers, against scikit-learn and by hand."""

import numpy as np
import pytest
from label_runs import keys_of, metrics_of
from sklearn import metrics as sklearn

N, CLASSES = 400, 8


@pytest.fixture(scope="module")
def run():
    """Labels, and scores of a good model and of a worse one."""
    rng = np.random.default_rng(7)
    truth = rng.choice(CLASSES, N, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.03, 0.01, 0.01])
    scores = rng.standard_normal((N, CLASSES))
    scores[np.arange(N), truth] += 2
    worse = scores + 0.8 * rng.standard_normal(scores.shape)
    return truth, scores.astype(np.float32), worse.astype(np.float32)


def test_classification_equals_scikit_learn(run) -> None:
    truth, *outputs = run
    found = metrics_of(truth, *outputs)
    assert list(found) == ["accuracy", "macro F1"]
    for name, output in zip(("reference", "candidate"), outputs, strict=True):
        answers = output.argmax(axis=1)
        expected = {
            "accuracy": sklearn.accuracy_score(truth, answers),
            "macro F1": sklearn.f1_score(truth, answers, labels=np.unique(truth), average="macro"),
        }
        for metric, value in expected.items():
            assert getattr(found[metric], name) == pytest.approx(value, abs=1e-12), metric
    assert [each.primary for each in found.values()] == [True, False]
    for each in found.values():
        assert each.lower < each.worse < each.upper


def test_pixels_equal_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(-1, 4, (80, 6, 5))
    scores = rng.standard_normal((80, 6, 5, 4))
    np.put_along_axis(scores, np.maximum(truth, 0)[..., None], 2.0, axis=-1)
    worse = scores + rng.standard_normal(scores.shape)
    found = metrics_of(truth, scores, worse)
    assert list(found) == ["accuracy", "mean IoU", "macro F1"]
    known = truth >= 0
    for name, output in (("reference", scores), ("candidate", worse)):
        pair = truth[known], output.argmax(axis=-1)[known]
        assert getattr(found["accuracy"], name) == pytest.approx(sklearn.accuracy_score(*pair))
        jaccard = sklearn.jaccard_score(*pair, average="macro")
        assert getattr(found["mean IoU"], name) == pytest.approx(jaccard)
        f1 = sklearn.f1_score(*pair, average="macro")
        assert getattr(found["macro F1"], name) == pytest.approx(f1)
    first = np.moveaxis(scores, -1, 1), np.moveaxis(worse, -1, 1)
    assert metrics_of(truth, *first) == found


def test_tags_equal_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    truth = (rng.random((300, 6)) < 0.3).astype(int)
    logits = 3.0 * truth - 1.5 + rng.standard_normal(truth.shape)
    worse = logits + rng.standard_normal(truth.shape)
    found = metrics_of(truth, logits, worse, task="multilabel")
    for name, output in (("reference", logits), ("candidate", worse)):
        answers = (output >= 0).astype(int)
        accuracy = sklearn.accuracy_score(truth.ravel(), answers.ravel())
        assert getattr(found["accuracy"], name) == pytest.approx(accuracy)
        f1 = sklearn.f1_score(truth, answers, average="macro")
        assert getattr(found["macro F1"], name) == pytest.approx(f1)
    probabilities = [1 / (1 + np.exp(-each)) for each in (logits, worse)]
    by_half = metrics_of(truth, *probabilities, task="multilabel")
    assert by_half["macro F1"] == found["macro F1"]


class TestBinary:
    def run(self, separation=2.0, offset=0.0, share=0.3):
        rng = np.random.default_rng(3)
        truth = (rng.random((600, 1)) < share).astype(int)
        logits = separation * (truth - 0.5) + rng.standard_normal(truth.shape) + offset
        return truth, logits, np.round(logits * 2) / 2

    def test_roc_auc_equals_scikit_learn_with_ties(self) -> None:
        truth, logits, rounded = self.run()
        found = metrics_of(truth, logits, rounded, task="binary")["ROC AUC"]
        assert found.reference == pytest.approx(sklearn.roc_auc_score(truth, logits))
        assert found.candidate == pytest.approx(sklearn.roc_auc_score(truth, rounded))

    @pytest.mark.slow
    def test_standard_error_is_near_that_of_leaving_out_each_sample(self) -> None:
        truth, logits, rounded = (each[:, 0] for each in self.run())

        def drop(kept):
            return sklearn.roc_auc_score(truth[kept], logits[kept]) - sklearn.roc_auc_score(
                truth[kept], rounded[kept]
            )

        variance = 0.0
        for side in (0, 1):
            rows = np.flatnonzero(truth == side)
            left_out = [drop(np.delete(np.arange(len(truth)), row)) for row in rows]
            variance += (len(rows) - 1) * np.var(left_out)
        found = metrics_of(*self.run(), task="binary")["ROC AUC"]
        assert found.standard_error == pytest.approx(np.sqrt(variance), rel=0.3)

    def test_labels_of_one_class_have_no_curve(self) -> None:
        truth, logits, rounded = self.run()
        assert list(metrics_of(np.ones_like(truth), logits, rounded, task="binary")) == ["accuracy"]

    @pytest.mark.parametrize(("positives", "bounded"), [(9, False), (10, True)])
    def test_few_positives_bound_no_area(self, positives, bounded) -> None:
        """Equal ranks would have a standard error of 0, whatever their number."""
        truth = (np.arange(600) < positives).astype(int)[:, None]
        scores = truth * 1.0 + np.arange(600)[:, None] / 600
        found = metrics_of(truth, scores, scores, task="binary")["ROC AUC"]
        assert (found.upper == 0) == bounded

    def test_scores_that_are_nan_have_no_rank(self) -> None:
        truth, logits, rounded = self.run(offset=-60)
        rounded[3] = np.nan
        found = metrics_of(truth, logits, rounded, task="binary")["ROC AUC"]
        assert found.error == "its scores hold NaN, which has no rank"


def test_copies_of_a_sample_are_one_piece_of_evidence() -> None:
    truth = np.zeros(300, int)
    scores = np.zeros((300, 8))
    keys = np.repeat(keys_of(3), 100)
    for name, each in metrics_of(truth, scores, scores, keys=keys).items():
        assert each.samples == 3, name
    pixels = np.zeros((300, 4, 8))
    found = metrics_of(np.zeros((300, 4), int), pixels, pixels, keys=keys)["accuracy"]
    assert found.samples == 3
    assert found.upper > 0.5
    assert metrics_of(truth, scores, scores)["accuracy"].upper < 0.01
