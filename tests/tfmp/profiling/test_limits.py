"""Where the time goes: a model whose limits are known is diagnosed from a real profile."""

import keras
import numpy as np
import pytest
from keras import layers

from tfmp import profile_training


@pytest.mark.slow
def test_a_wide_convolution():
    model = keras.Sequential(
        [
            layers.Input((16, 16, 128)),
            layers.Conv2D(128, 3, name="wide"),
            layers.GlobalAveragePooling2D(),
        ]
    )
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).standard_normal((8, 16, 16, 128), np.float32)

    data = (x, np.ones((8, 128), np.float32))
    report = profile_training(model, data, ("float32",), rounds=2, steps=2, batch_size=8)
    step = report.roofline.steps["float32"]
    layer = report.roofline.layers["wide"]["float32"]
    # 14 places along each axis; the way back has the gradients of weights and of the input.
    flops = 2 * 8 * 14 * 14 * 9 * 128 * 128
    assert sum(layer.work.products.values()) == 3 * flops
    for found in (step, layer):
        assert found.verdict == "compute-bound"
        assert found.compute_s > 3 * found.memory_s
        assert found.launch_s < found.compute_s
