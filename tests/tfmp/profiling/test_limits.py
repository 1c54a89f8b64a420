"""Where the time goes: a model whose limits are known is diagnosed from a real profile."""

import json
import time

import keras
import numpy as np
import pytest
from keras import layers

from tfmp import profile_training


@pytest.mark.slow
def test_a_wide_convolution_that_waits_for_its_data(tmp_path):
    model = keras.Sequential(
        [
            layers.Input((16, 16, 128)),
            layers.Conv2D(128, 3, name="wide"),
            layers.GlobalAveragePooling2D(),
        ]
    )
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).standard_normal((8, 16, 16, 128), np.float32)

    def batches():
        while True:
            time.sleep(0.3)
            yield x, np.ones((8, 128), np.float32)

    report = profile_training(model, batches(), ("float32",), rounds=2, steps=2, batch_size=8)
    step = report.roofline.steps["float32"]
    layer = report.roofline.layers["wide"]["float32"]
    # 14 places along each axis; the way back has the gradients of weights and of the input.
    flops = 2 * 8 * 14 * 14 * 9 * 128 * 128
    assert sum(layer.work.products.values()) == 3 * flops
    for found in (step, layer):
        assert found.verdict == "compute-bound"
        assert found.compute_s > 3 * found.memory_s
        assert found.launch_s < found.compute_s
    assert report.roofline.pipeline.waiting_share > 0.5
    assert "the input pipeline (Python iterable): input-bound: " in str(report)
    saved = json.loads(report.save(tmp_path / "p.json").read_text())["roofline"]
    assert saved["input_pipeline"]["verdict"] == "input-bound"
