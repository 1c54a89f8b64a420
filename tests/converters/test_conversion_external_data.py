"""Conversions of models whose weights lie beside them: nobody's weights are lost."""

from pathlib import Path

import keras_models
import numpy as np
import onnx
import pytest

from tfmp.converters import convert
from tfmp.converters.runners import OnnxRunner


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A float32 model whose weights have the name that its conversion's would once have had."""
    convert(keras_models.conv(), output=tmp_path / "model_fp32.onnx", precision="fp32")
    model = onnx.load(tmp_path / "model_fp32.onnx")
    onnx.save(
        model, tmp_path / "model_fp32.onnx", save_as_external_data=True,
        location="model.onnx.data", size_threshold=256,
    )  # fmt: skip
    return tmp_path / "model_fp32.onnx"


def run(path: Path) -> np.ndarray:
    runner = OnnxRunner(path)
    (spec,) = runner.inputs
    size = tuple(4 if size is None else size for size in spec.shape)
    batch = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    return next(iter(runner.run({spec.name: batch}).values()))


@pytest.mark.parametrize("external", [True, False])
def test_the_input_keeps_its_weights(original, external):
    before = run(original)
    for _ in range(2):
        convert(
            original, output=original.with_name("model.onnx"), external_data=external, force=True
        )
        np.testing.assert_array_equal(run(original), before)
        np.testing.assert_allclose(run(original.with_name("model.onnx")), before, atol=0.02)
