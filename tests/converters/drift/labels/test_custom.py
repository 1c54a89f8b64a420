"""Metrics of the user's own: how they are found, called, and refused."""

import pickle
from functools import partial

import numpy as np
import pytest

from tfmp.converters.drift.labels.custom import CustomMetric, MetricError, custom_metrics
from tfmp.converters.shared.errors import InputError

OUTPUT, LABELS = np.arange(6.0).reshape(3, 2), np.arange(3)


def share_above(predictions, labels):
    return (predictions[:, 0] > labels).mean()


def loss(predictions, labels):
    return np.abs(predictions[:, 0] - labels)


loss.lower_is_better = True


class Ratio:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, predictions, labels) -> float:
        return self.factor * float(predictions.mean())


def write(folder, text: str) -> None:
    (folder / "own_metrics_here.py").write_text(text)


def test_a_function_by_name_is_found_in_the_current_folder(tmp_path, monkeypatch) -> None:
    write(tmp_path, "def score(predictions, labels):\n    return 0.5\n")
    monkeypatch.chdir(tmp_path)
    metric = CustomMetric.of("own_metrics_here:score")
    assert (metric.name, metric.title) == ("own_metrics_here:score", "score")
    assert metric(OUTPUT, LABELS, 3) == 0.5
    assert not metric.lower_is_better


def test_functions_and_objects() -> None:
    assert CustomMetric.of(share_above)(OUTPUT, LABELS, 3) == pytest.approx(2 / 3)
    each = CustomMetric.of(loss)
    np.testing.assert_array_equal(each(OUTPUT, LABELS, 3), [0, 1, 2])
    assert each.lower_is_better
    assert CustomMetric.of(Ratio(2.0)).title == "Ratio"
    assert CustomMetric.of(Ratio(2.0))(OUTPUT, LABELS, 3) == 5.0
    assert CustomMetric.of(each) is each


def test_a_metric_travels_by_name_where_it_can_be_imported(tmp_path, monkeypatch) -> None:
    write(tmp_path, "def travels(predictions, labels):\n    return 0.25\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_metrics_here", raising=False)
    content = pickle.dumps(CustomMetric.of("own_metrics_here:travels"))
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.delitem(__import__("sys").modules, "own_metrics_here")
    assert pickle.loads(content)(OUTPUT, LABELS, 3) == 0.25
    assert pickle.loads(pickle.dumps(CustomMetric.of(Ratio(3.0))))(OUTPUT, LABELS, 3) == 7.5


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("no_such_module_here:f", "metric 'no_such_module_here:f': there is no module 'no_such_"),
        ("math:no_such", "metric 'math:no_such': module 'math' has no 'no_such'; it defines no"),
        ("accuracy", "metric 'accuracy' cannot be read: expected FILE.py:function, or a"),
        ("math:pi", "metric 'math:pi' is no function: expected FILE.py:function"),
        (3, "metric: expected FILE.py:function, or a function of predictions and labels"),
        (lambda predictions: 1.0, "cannot be called with two arguments, predictions and labels"),
    ],
)
def test_refusals(metric, message) -> None:
    with pytest.raises(InputError) as caught:
        CustomMetric.of(metric)
    assert message in str(caught.value)


def test_a_metric_of_a_file_travels_to_other_processes(tmp_path, monkeypatch) -> None:
    (tmp_path / "filed_metric_here.py").write_text("def f(predictions, labels):\n    return 0.5\n")
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps(CustomMetric.of("filed_metric_here.py:f"))
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.delitem(__import__("sys").modules, "filed_metric_here")
    assert pickle.loads(content)(OUTPUT, LABELS, 3) == 0.5
    with pytest.raises(InputError, match=r"there is no file '.*absent\.py'\. Check the path"):
        CustomMetric.of("absent.py:f")


def test_a_module_that_raises_is_told_with_its_place(tmp_path, monkeypatch) -> None:
    (tmp_path / "broken_metrics_here.py").write_text("import math\nraise OSError('no licence')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"raised OSError when it was imported: no licence at .*2"):
        CustomMetric.of("broken_metrics_here:f")


def fails(predictions, labels):
    raise ValueError("too few words")


def wrong_shape(predictions, labels):
    return predictions


def says_text(predictions, labels):
    return "good"


def test_an_error_of_the_function_says_what_it_received() -> None:
    with pytest.raises(MetricError) as caught:
        CustomMetric.of(fails)({"a": OUTPUT, "b": LABELS}, LABELS, 3)
    text = str(caught.value)
    assert "fails' raised ValueError: too few words at " in text
    assert "test_custom.py, line " in text
    assert text.endswith(
        "It received predictions {'a': of shape (3, 2), 'b': of shape (3,)} and labels of shape "
        "(3,)."
    )


@pytest.mark.parametrize("function", [wrong_shape, says_text])
def test_only_a_number_or_one_for_each_sample_counts(function) -> None:
    with pytest.raises(MetricError, match=r"It received predictions of shape \(3, 2\)"):
        CustomMetric.of(function)(OUTPUT, LABELS, 3)


def test_none_one_or_several() -> None:
    assert custom_metrics(None) == ()
    assert [each.title for each in custom_metrics("math:hypot")] == ["hypot"]
    assert [each.title for each in custom_metrics([loss, share_above])] == ["loss", "share_above"]
    with pytest.raises(InputError, match="'math:hypot' is named twice"):
        custom_metrics(["math:hypot", "math:hypot"])
    assert custom_metrics(partial(share_above))[0].title == "partial"


SCORES, TRUTH = np.array([[0.1], [0.4], [0.35], [0.8]]), np.array([[0], [0], [1], [1]])


def test_a_keras_metric_starts_from_nothing_each_time() -> None:
    import keras

    for metric in ("keras.metrics:AUC", keras.metrics.AUC(curve="ROC")):
        area = CustomMetric.of(metric)
        first = area(SCORES, TRUTH, 4)
        assert first == pytest.approx(0.75, abs=0.01)
        assert area(1 - SCORES, TRUTH, 4) == pytest.approx(0.25, abs=0.01)
        assert area(SCORES, TRUTH, 4) == first
        assert not area.lower_is_better
    assert CustomMetric.of("keras.metrics:MeanSquaredError").lower_is_better
    # A result of shape (1,) is a number.
    assert isinstance(CustomMetric.of("keras.metrics:F1Score")(SCORES, TRUTH, 4), float)


def test_an_object_of_keras_is_not_its_class() -> None:
    import keras

    named = CustomMetric.of(keras.metrics.AUC(curve="PR", name="area_pr"))
    assert named.title == "area_pr"
    with pytest.raises(InputError, match=r"is a Keras metric that needs arguments: .* metric ="):
        CustomMetric.of("keras.metrics:IoU")


def test_functions_of_scikit_learn_get_labels_first() -> None:
    area = CustomMetric.of("sklearn.metrics:roc_auc_score")
    assert area(SCORES, TRUTH[:, 0], 4) == 0.75
    assert not area.lower_is_better
    assert CustomMetric.of("sklearn.metrics:log_loss").lower_is_better
    assert CustomMetric.of("sklearn.metrics:mean_absolute_error").lower_is_better


def test_a_column_is_a_number_for_each_sample() -> None:
    column = CustomMetric.of(lambda predictions, labels: predictions == labels)
    assert column(TRUTH, TRUTH, 4).shape == (4,)
