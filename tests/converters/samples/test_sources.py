"""Labels beside samples."""

import numpy as np
import pytest

from tfmp.converters.samples.sources import without_labels
from tfmp.converters.shared.tensors import TensorSpec

X, Y = np.zeros((3, 2)), np.arange(3)


def inputs(*names: str) -> list[TensorSpec]:
    return [TensorSpec(name, (None, 2), "float32") for name in names]


def test_x_and_y_are_samples_and_labels_of_a_model_with_one_input():
    arrays, labels = without_labels({"x": X, "y": Y}, inputs("image"))
    assert list(arrays) == ["x"]
    assert labels is Y


@pytest.mark.parametrize("names", [("x", "y"), ("left", "right"), ("y",)])
def test_they_are_inputs_where_the_model_has_others(names: tuple[str, ...]):
    arrays, labels = without_labels({"x": X, "y": Y}, inputs(*names))
    assert set(arrays) == {"x", "y"}
    assert labels is None
