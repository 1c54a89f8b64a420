"""A .tflite file that allows sums in FP16 is judged by them, too."""

from pathlib import Path

import keras
import numpy as np
import pytest

from tfmp.converters import convert
from tfmp.converters.report import CandidateReport


def judged(terms: int, low: float, folder: Path, accumulate: str) -> CandidateReport:
    """A product of so many terms between `low` and 1, converted and validated."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((terms,))
    weights = keras.initializers.RandomUniform(low, 1)
    model = keras.Model(
        inputs, keras.layers.Dense(4, kernel_initializer=weights, name="dense")(inputs)
    )
    x = np.random.default_rng(0).uniform(low, 1, (64, terms)).astype(np.float32)
    options = {"data": x, "accumulate": accumulate, "tasks": {"dense": "regression"}}
    return convert(model, "tflite", folder / "m.tflite", **options).report.candidates[0]


@pytest.mark.parametrize(
    ("terms", "low", "fails"), [(8192, 0, True), (64, -1, False)], ids=["past 2048", "sound"]
)
def test_sums_that_fp16_cannot_hold_are_found_where_the_file_allows_them(
    terms: int, low: float, fails: bool, tmp_path: Path
):
    candidate = judged(terms, low, tmp_path, "fp16")
    assert candidate.runner.fp16 == "emulated"
    assert candidate.runner.details["holds for"].startswith("LiteRT on CPUs that add in FP16")
    assert (candidate.verdict == "FAIL") == fails, candidate.reasons


def test_a_file_that_allows_sums_in_fp32_only_is_judged_by_these(tmp_path: Path):
    candidate = judged(8192, 0, tmp_path, "fp32")
    assert candidate.runner.fp16 == "native"
    assert candidate.outputs[0].rel_l2 < 1e-3
