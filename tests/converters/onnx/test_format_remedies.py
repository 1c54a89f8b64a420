"""Each remedy that a FAIL of an .onnx file names is walked: to a PASS, or to the honest end."""

from pathlib import Path

import keras
import numpy as np
import pytest

from tfmp.converters import DriftBudget, convert

MIXED, FP16 = "--precision mixed", "--precision fp16"


def model(*scales: float) -> keras.Model:
    """Layers of these standard deviations of weights."""
    keras.utils.set_random_seed(0)
    normal = keras.initializers.RandomNormal
    inner = [keras.layers.Dense(16, kernel_initializer=normal(0, s, 1)) for s in scales]
    return keras.Sequential([keras.Input((8,), name="x"), *inner, keras.layers.Dense(2)], name="n")


@pytest.mark.parametrize(
    ("scales", "precision", "limit", "remedies", "end"),
    [
        ((3e4, 1e-5), "fp16", 0.01, [MIXED], "PASS"),
        ((0.3, 0.3), "bf16", 0.002, [FP16], "PASS"),
        ((3e4, 1e-5), "bf16", 0.002, [FP16, MIXED], "PASS"),
        ((0.3, 0.3), "fp16", 1e-5, [MIXED], "PASS"),
        ((0.3, 0.3), "fp32", 1e-12, [], "This file computes in FP32: declare a larger limit"),
    ],
)
def test_remedies_are_walked(scales, precision, limit, remedies, end, tmp_path: Path) -> None:
    budget, walked = DriftBudget(rel_l2=limit), []
    x = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    while True:
        path = tmp_path / f"{len(walked)}.onnx"
        report = convert(model(*scales), "onnx", path, precision, data=x, budget=budget).report
        (found,) = report.candidates
        if found.verdict == "PASS" or found.remedy_flags is None:
            break
        walked.append(found.remedy_flags)
        precision = found.remedy_flags.removeprefix("--precision ")
    assert walked == remedies
    assert end in (found.verdict if end == "PASS" else found.remedy)
