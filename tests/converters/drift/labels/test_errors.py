"""Metrics of numbers, against scikit-learn and by hand."""

import math

import numpy as np
import pytest
from label_runs import compared, metrics_of
from scipy import stats
from sklearn import metrics as sklearn

from tfmp.converters.drift import with_metrics


def regression(width=3):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((200, width)) * 3 + 100
    reference = (truth + rng.standard_normal(truth.shape)).astype(np.float32)
    return truth, reference, (reference + 0.3).astype(np.float32)


def test_errors_equal_scikit_learn() -> None:
    truth, *outputs = regression()
    found = metrics_of(truth, *outputs)
    assert list(found) == ["mean absolute error", "root mean square error"]
    for name, output in zip(("reference", "candidate"), outputs, strict=True):
        mae = sklearn.mean_absolute_error(truth, output)
        assert getattr(found["mean absolute error"], name) == pytest.approx(mae)
        rmse = sklearn.root_mean_squared_error(truth.ravel(), output.ravel())
        assert getattr(found["root mean square error"], name) == pytest.approx(rmse)


def test_the_lower_bound_on_mean_absolute_error_is_a_paired_t_interval_s() -> None:
    truth, *outputs = regression()
    found = metrics_of(truth, *outputs)["mean absolute error"]
    errors = [np.abs(output - truth).mean(axis=1) for output in outputs]
    expected = stats.ttest_rel(errors[1], errors[0]).confidence_interval(0.9)
    lower, upper = found.bounds(0.95)
    assert lower == pytest.approx(expected.low, rel=1e-6)
    assert upper > expected.high
    # The growth d that n d**2 = t**2 (variance + 7.1 worst d) allows, beyond the one seen.
    change = errors[1] - errors[0]
    beyond, t = upper - change.mean(), stats.t.ppf(0.95, 199)
    variance = change.var(ddof=1) + 7.1 * change.max() * beyond
    assert 200 * beyond**2 == pytest.approx(t**2 * variance, rel=1e-5)


def test_growth_that_few_samples_carry_is_not_proven_to_be_small() -> None:
    truth = np.linspace(0.1, 0.9, 300)[:, None]
    reference = (truth + 1).astype(np.float32)
    even, few = reference + np.float32(0.002), reference.copy()
    few[::150] += np.float32(0.3)
    for candidate, proven in ((even, True), (few, False)):
        found = metrics_of(truth, reference, candidate)["mean absolute error"]
        assert found.worse == pytest.approx(0.002, rel=1e-3)
        assert (found.bounds(0.95)[1] < 0.01) is proven


def test_the_standard_error_of_the_root_mean_square_equals_a_bootstrap() -> None:
    truth, *outputs = regression(1)
    found = metrics_of(truth, *outputs)["root mean square error"]
    squares = [((output - truth) ** 2)[:, 0] for output in outputs]
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 200, (4000, 200))
    roots = [np.sqrt(square[drawn].mean(axis=1)) for square in squares]
    assert found.standard_error == pytest.approx(np.std(roots[1] - roots[0]), rel=0.05)


@pytest.mark.parametrize(("shape", "axis"), [((90, 3), 0), ((90, 40), None), ((90, 4, 5), None)])
def test_the_deviation_of_labels_is_theirs_without_levels_of_few_columns(shape, axis) -> None:
    truth = np.random.default_rng(0).standard_normal(shape)
    truth += 1e4 * np.arange(shape[-1]) * (axis == 0)
    parts = [np.arange(1), np.arange(1, 30), np.arange(30, 90)]
    found = with_metrics(compared(truth, truth, truth, order=parts, task="regression")).metrics
    assert found[0].deviation == pytest.approx(np.sqrt(truth.var(axis=axis).mean()), rel=1e-3)


def test_errors_that_are_not_finite_have_no_bound() -> None:
    truth, reference, candidate = regression()
    candidate[3, 1] = np.inf
    drift = compared(truth, reference, candidate)
    assert drift.candidate == math.inf
    assert metrics_of(truth, reference, candidate)["mean absolute error"].bounds(0.95) == (
        -math.inf,
        math.inf,
    )
