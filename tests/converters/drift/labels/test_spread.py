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


def test_labels_that_are_not_finite_have_none() -> None:
    found = Spread.of(np.array([[1.0], [np.inf]]))
    assert found.deviation is None
    assert Spread().deviation is None
    assert Spread.of(np.empty((0, 3))).deviation is None
