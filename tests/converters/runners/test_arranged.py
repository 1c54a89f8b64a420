"""Models that take a fixed number of samples, whatever number that is."""

import numpy as np
import pytest

from tfmp.converters.runners.arranged import laid_out
from tfmp.converters.runners.base import Held, RunnerInfo
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.layout import PLAIN
from tfmp.converters.shared.tensors import TensorSpec

X = {"x": np.arange(15, dtype=np.float32).reshape(5, 3)}


class Doubler(Held):
    """Doubles x, as many samples at once as it was made for."""

    info = RunnerInfo("doubler", "CPU", None)

    def __init__(self, samples: int) -> None:
        self.inputs = (TensorSpec("x", (samples, 3), "float32"),)
        self.outputs = (TensorSpec("y", (samples, 3), "float32"),)

    def run(self, batch):
        assert self.inputs[0].takes(batch["x"])
        return {"y": 2 * batch["x"]}


@pytest.mark.parametrize("samples", [1, 2, 5, 7])
def test_any_number_of_samples(samples: int) -> None:
    np.testing.assert_array_equal(laid_out(Doubler(samples), PLAIN).run(X)["y"], 2 * X["x"])


@pytest.mark.parametrize("samples", [0, -1])
def test_no_samples_at_once(samples: int) -> None:
    with pytest.raises(
        RunnerError, match=rf"takes {samples} samples at once\. Convert .* --batch N"
    ):
        laid_out(Doubler(samples), PLAIN)


@pytest.mark.parametrize("samples", [2**62, 2**63 - 1, 2**50])
def test_more_samples_than_memory_holds(samples: int) -> None:
    with pytest.raises(RunnerError, match=rf"x: float32\[{samples}, 3\] asks for .* of memory"):
        laid_out(Doubler(samples), PLAIN)
