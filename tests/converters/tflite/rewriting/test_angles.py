"""Sines of positions and times: whole turns are taken out before FP16 rounds the angle."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
from keras import ops
from own_layer import Own

from tfmp.converters import open_source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.tflite.rewriting.repair import repair_model

RATES = np.exp(-np.log(10000) * np.arange(16) / 16).astype(np.float32)
# Two coordinates of a pixel; its angles are up to 600.
TURNS = np.random.default_rng(2).normal(size=(2, 16)).astype(np.float32) * 200
STEPS = np.random.default_rng(0).integers(0, 1000, (64, 1))


def embedding(angle):
    return ops.concatenate([ops.sin(angle), ops.cos(angle)], -1)


def model(function: Callable, dtype: str) -> keras.Model:
    x = keras.Input((1,), name="x", dtype=dtype)
    return keras.Model(x, {"y": Own(function, name="own")(x)}, name="m")


REDUCED = (
    (lambda t: embedding(t * RATES), STEPS.astype(np.float32)),
    (lambda t: embedding(ops.matmul(t / 2.0, RATES[None] * 2)), STEPS.astype(np.float32)),
    (lambda t: ops.sin(t / (1 / RATES) + 0.5), STEPS.astype(np.float32)),
    (lambda t: embedding(ops.cast(t, "float32") * RATES), (STEPS * 57).astype(np.int32)),
    (lambda t: embedding(2 * np.pi * t / 365.25), -STEPS.astype(np.float32)),
    (
        lambda keep: embedding(ops.expand_dims(ops.cumsum(keep, 1), -1) * RATES),
        (np.random.default_rng(1).random((64, 300)) < 0.8).astype(np.float32),
    ),
    (lambda at: embedding(ops.matmul(at, TURNS) + 1.0), STEPS[:, :1] % [256, 243] / 128 - 1),
)


def test_large_angles_are_reduced(tmp_path: Path, export: Callable) -> None:
    inputs, outputs = [], {}
    for place, (function, x) in enumerate(REDUCED):
        inputs.append(keras.Input(x.shape[1:], name=f"x{place}", dtype=str(x.dtype)))
        outputs[f"y{place}"] = Own(function, name=f"own{place}")(inputs[-1])
    source = open_source(keras.Model(inputs, outputs))
    batch = {f"x{i}": x for i, (_, x) in enumerate(REDUCED)}
    plain = repair_model(source, lambda: [batch], overflow=False)
    assert plain.changes == ()
    found = repair_model(source, lambda: [batch])
    assert {change.what for change in found.changes} == {"whole turns taken out of an angle"}
    assert found.left == found.lost == ()
    file = export(found.source, tmp_path / "m.tflite")
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        received = runner.run(batch)
    for name, expected in source.forward(batch).items():
        # 0.1 and more before
        np.testing.assert_allclose(received[name], expected, atol=0.01, err_msg=name)


def test_what_was_not_seen_has_the_right_sine_too() -> None:
    source = open_source(model(lambda t: embedding(t * RATES), "float32"))
    found = repair_model(source, lambda: [{"x": STEPS.astype(np.float32)}])
    x = np.array([[1700.25], [-3.7], [0.0], [31.999]], np.float32)
    (expected,), (received,) = (one.forward({"x": x}).values() for one in (source, found.source))
    np.testing.assert_allclose(received, expected, atol=3e-4)  # float32 rounds the angle as well


def test_small_angles_and_other_uses_of_an_angle_stay() -> None:
    for function in (lambda t: ops.sin(t * 0.005), lambda t: (lambda a: ops.sin(a) + a)(t * 2.0)):
        source = open_source(model(function, "float32"))
        found = repair_model(source, lambda: [{"x": STEPS.astype(np.float32)}])
        assert found.changes == ()


def test_positions_that_fp16_rounds_have_another_way_out() -> None:
    source = open_source(model(lambda t: embedding(t * 1000 * RATES), "float32"))
    found = repair_model(source, lambda: [{"x": STEPS.astype(np.float32) / 1000}])
    assert found.changes == ()
    (told,) = found.lost
    assert told.startswith("layer own: FP16 rounds the position, up to 0.99")
    assert told.endswith("Give the model the sines, or keep it in float32")
