"""A .tflite file that allows sums in FP16 is judged by them, too."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from own_layer import Own

from tfmp.converters import convert
from tfmp.converters.report import CandidateReport

MIXING = np.random.default_rng(1).normal(size=(4, 4, 3)).astype(np.float32)


def judged(
    terms: int, low: float, folder: Path, accumulate: str, looped: bool = False
) -> CandidateReport:
    """A product of so many terms between `low` and 1, converted and validated."""
    keras.utils.set_random_seed(0)
    steps = (2,) if looped else ()
    inputs = keras.Input((*steps, terms))
    weights = keras.initializers.RandomUniform(low, 1)
    if looped:
        layer = keras.layers.SimpleRNN(
            4, None, kernel_initializer=weights, recurrent_initializer="zeros", name="product"
        )
    else:
        layer = keras.layers.Dense(4, kernel_initializer=weights, name="product")
    model = keras.Model(inputs, layer(inputs))
    x = np.random.default_rng(0).uniform(low, 1, (64, *steps, terms)).astype(np.float32)
    options = {"data": x, "accumulate": accumulate, "tasks": {"product": "regression"}}
    return convert(model, "tflite", folder / "m.tflite", **options).report.candidates[0]


@pytest.mark.parametrize(
    ("terms", "low", "looped", "fails"),
    [(8192, 0, False, True), (64, -1, False, False), (8192, 0, True, True)],
    ids=["past 2048", "sound", "in a loop"],
)
def test_sums_that_fp16_cannot_hold_are_found_where_the_file_allows_them(
    terms: int, low: float, looped: bool, fails: bool, tmp_path: Path
):
    candidate = judged(terms, low, tmp_path, "fp16", looped)
    assert candidate.runner.fp16 == "emulated"
    assert candidate.runner.details["holds for"].startswith("LiteRT on CPUs that add in FP16")
    assert (candidate.verdict == "FAIL") == fails, candidate.reasons


def fourier_layer(x):
    """As of a Fourier neural operator: products of both parts of a spectrum's first terms."""
    terms = tf.signal.rfft2d(x)[:, :4, :4]
    parts = [
        tf.einsum("bij,ijk->bik", part(terms), MIXING) for part in (tf.math.real, tf.math.imag)
    ]
    return tf.concat(parts, -1)


def test_transforms_are_emulated_where_fp16_cannot_start(tmp_path: Path):
    inputs = keras.Input((8, 8))
    model = keras.Model(inputs, {"y": Own(fourier_layer, name="own")(inputs)})
    x = np.random.default_rng(0).normal(size=(300, 8, 8)).astype(np.float32)
    (candidate,) = convert(model, "tflite", tmp_path / "m.tflite", data=x).report.candidates
    assert (candidate.runner.fp16, candidate.verdict) == ("emulated", "PASS")


def test_a_file_that_allows_sums_in_fp32_only_is_judged_by_these(tmp_path: Path):
    candidate = judged(8192, 0, tmp_path, "fp32")
    assert candidate.runner.fp16 == "native"
    assert candidate.outputs[0].rel_l2 < 1e-3
