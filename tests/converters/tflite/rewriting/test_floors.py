"""Limits that FP16 lacks: raised, lowered or moved where the samples allow it, else told of."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from own_layer import Own

from tfmp.converters import open_source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.tflite.rewriting.repair import Repaired, repair_model


def model(*functions: Callable) -> keras.Model:
    """An output `y0`, `y1` and so on for each function, which a product reads."""
    x = keras.Input((16,), name="x")
    outputs = {}
    for index, function in enumerate(functions):
        kernel = keras.initializers.RandomNormal(seed=1)
        hidden = Own(function, name="own" if len(functions) == 1 else f"own{index}")(x)
        outputs[f"y{index}"] = keras.layers.Dense(4, kernel_initializer=kernel)(hidden)
    return keras.Model(x, outputs, name="m")


NORM = keras.layers.LayerNormalization(epsilon=1e-12)


def rows() -> np.ndarray:
    """Powers of a signal with silence in it: zeros beside numbers from 1e-3 on."""
    x = np.random.default_rng(0).normal(size=(32, 16)).astype(np.float32) ** 2 + 1e-3
    x[:, ::5], x[:4] = 0, 0
    return x


def mended(*functions: Callable) -> Repaired:
    return repair_model(open_source(model(*functions)), lambda: [{"x": rows()}], overflow=False)


MOVED = (
    (lambda x: ops.log(ops.maximum(x, 1e-10)), "floor moved behind the logarithm"),
    (lambda x: ops.log(x + 1e-12), "floor moved behind the logarithm"),
    (lambda x: ops.sqrt(x + 1e-10), "floor moved behind the logarithm or root"),
    (lambda x: x / (ops.sum(x, -1, keepdims=True) + 1e-9), "1e-09 is now 6.1e-05"),
    (lambda x: x / ops.where(x < 1e-9, 1e-9, x), "1e-09 is now 6.1e-05"),
    (lambda x: tf.math.l2_normalize(x, -1), "1e-12 is now 6.1e-05"),
    (lambda x: ops.normalize(x, -1), "ceiling lowered, 1e+07 is now 128"),
    (lambda x: NORM(x), "1e-12 is now"),
)


def test_limits_that_fp16_lacks_are_moved_where_the_samples_allow_it(
    tmp_path: Path, export: Callable
) -> None:
    functions = [function for function, _ in MOVED]
    found = mended(*functions)
    changes = [str(change) for change in found.changes]
    for index, (_, told) in enumerate(MOVED):
        assert any(f"layer own{index}" in one and told in one for one in changes), told
    assert found.lost == found.left == ()
    again = repair_model(found.source, lambda: [{"x": rows()}])
    assert not any("floor" in change.what for change in again.changes)
    file = export(found.source, tmp_path / "m.tflite")
    exact = open_source(model(*functions)).forward({"x": rows()})
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        outputs = runner.run({"x": rows()})
    for (name, expected), (_, told) in zip(sorted(exact.items()), MOVED, strict=True):
        error = np.linalg.norm(outputs[name] - expected) / np.linalg.norm(expected)
        assert error < 0.01, told  # not a number before


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.log(ops.maximum(x, 1e-3) + 1.0),
        lambda x: ops.log(ops.maximum(x, 1e-7) + 1.0),
        lambda x: ops.maximum(x, 0.0),
        lambda x: ops.minimum(x, 1e9),  # larger numbers may come: the file ends it at 65504
        lambda x: x * 1e-9 * 1e9,
    ],
)
def test_other_constants_stay(function: Callable) -> None:
    found = mended(function)
    assert found.changes == found.lost == ()


def test_a_limit_that_cannot_be_moved_is_told_of_with_its_layer() -> None:
    (told,) = mended(lambda x: ops.log(ops.where(x < 1e-9, 1e-9, x))).vanishing
    assert (told.layer, told.value) == ("layer own", pytest.approx(1e-9))
