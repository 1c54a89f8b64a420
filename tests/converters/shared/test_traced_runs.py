"""Functions run as they were written, without fusions of TensorFlow's optimizer."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters.shared.traced_runs import run_traced

# Grouped convolutions, which layers compile with XLA, are traced as plain ones.
GROUPED = """
import keras, numpy as np
from tfmp.converters.intake import Float64Model, open_source

image = keras.Input((8, 8, 4), name="image")
hidden = keras.layers.Conv2D(6, 3, groups=2, activation="relu")(image)
model = keras.Model(image, keras.layers.BatchNormalization()(hidden))
batch = {"image": np.random.default_rng(0).standard_normal((2, 8, 8, 4), dtype=np.float32)}
source = open_source(model)
(found,), (exact,) = source.forward(batch).values(), Float64Model(source).run(batch).values()
np.testing.assert_allclose(found, model.predict(batch, verbose=0), atol=1e-5)
np.testing.assert_allclose(found, exact, atol=1e-5)
"""


def test_channels_on_another_axis_than_the_convolutions_are_not_fused() -> None:
    """As files of Keras 2 have them whose convolutions are channels_first, and no normalization."""
    random = np.random.default_rng(0)
    image, kernel = (random.random(size, np.float32) for size in ((2, 2, 5, 6), (3, 3, 2, 4)))
    scale, offset, mean, variance = random.random((4, 6), np.float32) + 0.5

    @tf.function
    def normalized(x: tf.Tensor) -> tf.Tensor:
        y = tf.nn.conv2d(x, kernel, 1, "SAME", data_format="NCHW")
        options = {"mean": mean, "variance": variance, "is_training": False}
        return tf.compat.v1.nn.fused_batch_norm(y, scale, offset, epsilon=0.0, **options)[0]

    before = tf.config.optimizer.get_experimental_options().get("remapping", True)
    found = run_traced(normalized, image)
    y = tf.nn.conv2d(np.transpose(image, (0, 2, 3, 1)), kernel, 1, "SAME")
    expected = (np.transpose(y, (0, 3, 1, 2)) - mean) / np.sqrt(variance) * scale + offset
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert tf.config.optimizer.get_experimental_options()["remapping"] is before


@pytest.mark.slow
def test_grouped_convolutions_run_without_onednn() -> None:
    """With it they run in the sweep of layers."""
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    found = subprocess.run(
        [sys.executable, "-c", GROUPED], env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr[-2000:]
