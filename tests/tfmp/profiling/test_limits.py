"""Where the time goes: three models whose limits are known are diagnosed from a real profile."""

import json
import time

import keras
import numpy as np
import pytest
from keras import layers

from tfmp import profile_training
from tfmp.profiling.report import ProfileReport

RNG = np.random.default_rng(0)


def profile(model: keras.Model, data, batch_size: int, **options) -> ProfileReport:
    model.compile("sgd", "mse")
    return profile_training(
        model, data, ("float32",), rounds=2, steps=2, batch_size=batch_size, **options
    )


def toy() -> keras.Model:
    return keras.Sequential([layers.Input((4,)), layers.Dense(2, name="tiny")])


@pytest.mark.slow
def test_a_pipeline_that_sleeps_is_input_bound(tmp_path):
    x, y = np.ones((8, 4), np.float32), np.ones((8, 2), np.float32)

    def batches():
        while True:
            time.sleep(0.05)
            yield x, y

    report = profile(toy(), batches(), 8, layers=False)
    pipeline = report.roofline.pipeline
    assert pipeline.input_bound
    assert pipeline.waiting_share > 0.5
    assert "the input pipeline (Python iterable): input-bound: " in str(report)
    saved = json.loads(report.save(tmp_path / "p.json").read_text())["roofline"]
    assert saved["input_pipeline"]["verdict"] == "input-bound"
    page = report.save(tmp_path / "p.html").read_text()
    assert "Input pipeline" in page
    assert "input-bound" in page


@pytest.mark.slow
def test_a_wide_convolution_is_compute_bound():
    model = keras.Sequential(
        [
            layers.Input((16, 16, 128)),
            layers.Conv2D(128, 3, name="wide"),
            layers.GlobalAveragePooling2D(),
        ]
    )
    x = RNG.standard_normal((8, 16, 16, 128), np.float32)
    report = profile(model, (x, np.ones((8, 128), np.float32)), 8)
    step = report.roofline.steps["float32"]
    layer = report.roofline.layers["wide"]["float32"]
    # 14 places along each axis; the way back has the gradients of weights and of the input.
    flops = 2 * 8 * 14 * 14 * 9 * 128 * 128
    assert sum(layer.forward.products.values()) == flops
    assert sum(layer.backward.products.values()) == 2 * flops
    for found in (step, layer):
        assert found.verdict == "compute-bound"
        assert found.compute_s > 3 * found.memory_s
        assert found.launch_s < found.compute_s
