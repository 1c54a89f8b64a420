"""The spread of labels, summed exactly."""

import math

import numpy as np
import pytest

from tfmp.converters.drift.exact import merge
from tfmp.converters.drift.labels.spread import Spread


@pytest.mark.parametrize(("shape", "axis"), [((90, 3), 0), ((90, 40), None), ((90, 4, 5), None)])
def test_the_deviation_is_numpys(shape, axis) -> None:
    labels = np.random.default_rng(0).standard_normal(shape) + 1e6
    found = Spread()
    for part in np.split(labels, [1, 30]):
        found = merge(found, Spread.of(part))
    assert found == Spread.of(labels)
    expected = math.sqrt(np.mean(labels.var(axis=axis)))
    assert found.deviation == pytest.approx(expected, rel=1e-3)


def test_series_that_begin_anywhere_are_seen_beside_how_they_go_on() -> None:
    generator = np.random.default_rng(0)
    start = generator.uniform(-100, 100, (90, 1, 2))
    tracks = start + 3 * generator.standard_normal((90, 40, 2))
    found = Spread()
    for part in np.split(tracks, [1, 30]):
        found = merge(found, Spread.of(part))
    size = math.sqrt((tracks**2).mean())
    assert found.deviation == pytest.approx(size, rel=0.02)
    assert found.scale == pytest.approx(size / 5)  # rounding to FP16 grows with the size
    near = Spread.of(tracks / 20 - start / 20 + generator.uniform(-0.3, 0.3, start.shape))
    assert near.scale == pytest.approx(tracks.std(axis=1).mean() / 20, rel=0.05)


@pytest.mark.parametrize("shape", [(90,), (90, 9), (90, 4, 3), (90, 1, 1, 40)])
def test_a_few_quantities_are_seen_beside_how_samples_differ(shape) -> None:
    found = Spread.of(np.random.default_rng(0).standard_normal(shape))
    assert found.scale == pytest.approx(found.deviation, rel=0.02)


def test_labels_that_are_not_finite_have_none() -> None:
    found = Spread.of(np.array([[1.0], [np.inf]]))
    assert found.deviation is None
    assert Spread().deviation is None
    assert Spread.of(np.empty((0, 3))).deviation is None
