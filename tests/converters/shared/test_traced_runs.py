"""Functions run as they were written where TensorFlow's optimizer makes them unable to run."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tfmp.converters.shared.traced_runs import run_traced

OPTIONS = tf.config.optimizer

# Grouped convolutions, which layers compile with XLA, are traced as plain ones.
GROUPED = """
import keras, numpy as np
from tfmp.converters.intake import in_float64, open_source

image = keras.Input((8, 8, 4), name="image")
hidden = keras.layers.Conv2D(6, 3, groups=2, activation="relu")(image)
model = keras.Model(image, keras.layers.BatchNormalization()(hidden))
batch = {"image": np.random.default_rng(0).standard_normal((2, 8, 8, 4), dtype=np.float32)}
source = open_source(model)
(found,), (exact,) = source.forward(batch).values(), in_float64(source).run(batch).values()
np.testing.assert_allclose(found, model.predict(batch, verbose=0), atol=1e-5)
np.testing.assert_allclose(found, exact, atol=1e-5)
"""


class Fused:
    """A function that can only run as it was written."""

    def __init__(self, error: type[tf.errors.OpError]) -> None:
        self.calls: list[bool] = []
        self._error = error

    def __call__(self, tensor: int) -> list[int]:
        fused = OPTIONS.get_experimental_options().get("remapping", True)
        self.calls.append(fused)
        if fused:
            raise self._error(None, None, "no kernel for what was fused")
        return [tensor]


def test_what_cannot_run_fused_runs_as_it_was_written() -> None:
    function = Fused(tf.errors.UnimplementedError)
    assert run_traced(function, 1) == [1]
    assert OPTIONS.get_experimental_options()["remapping"] is True
    assert run_traced(function, 2) == [2]
    assert function.calls == [True, False, False]  # it is not tried again
    assert OPTIONS.get_experimental_options()["remapping"] is True
    function = Fused(tf.errors.InvalidArgumentError)
    with pytest.raises(tf.errors.InvalidArgumentError):
        run_traced(function, 1)
    assert function.calls == [True]


def test_what_cannot_run_at_all_leaves_the_option_as_it_was() -> None:
    def function(tensor: int) -> list[int]:
        raise tf.errors.UnimplementedError(None, None, "no kernel")

    OPTIONS.set_experimental_options({"remapping": False})
    try:
        with pytest.raises(tf.errors.UnimplementedError):
            run_traced(function, 1)
        assert OPTIONS.get_experimental_options()["remapping"] is False
    finally:
        OPTIONS.set_experimental_options({"remapping": True})


@pytest.mark.slow
@pytest.mark.parametrize("onednn", ["0", "1"])
def test_grouped_convolutions_run_with_onednn_and_without(onednn: str) -> None:
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn}
    found = subprocess.run(
        [sys.executable, "-c", GROUPED], env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr[-2000:]
