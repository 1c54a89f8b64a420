"""Which constants of a .tflite file are FP16, and what small ones in FP32 save on CPUs."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from tfmp.converters import open_source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.export import export as export_module
from tfmp.converters.tflite.file import TFLiteModel


def dates() -> keras.Model:
    """A day since 1970, as a small spread beside a large offset."""
    inputs = keras.Input((16,), name="x")
    x = keras.layers.Dense(2048, "relu", name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1, name="day")(x), name="dates")
    model.get_layer("day").bias.assign([20003.7])
    return model


def run(path: Path, batch: Batch, force_fp16: bool = False) -> np.ndarray:
    with LiteRTRunner(path, force_fp16=force_fp16) as runner:
        return next(iter(runner.run(batch).values()))


def test_small_constants_stay_right_where_cpus_compute_in_fp32(convert: Callable) -> None:
    source, file = convert(dates)
    model = TFLiteModel(file.path)
    stored = {t.spec.shape: t.spec.dtype for t in model.constants()}
    assert {shape for shape, dtype in stored.items() if dtype == "float16"} == {(2048, 16)}
    batch = {"x": np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)}
    (expected,) = source.forward(batch).values()
    np.testing.assert_allclose(run(file.path, batch), expected, atol=0.1)  # 4.3 before
    # Forced to FP16, XNNPACK rounds them itself: to a multiple of 16.
    np.testing.assert_allclose(run(file.path, batch, force_fp16=True), expected, atol=16)


def test_constants_past_fp16_are_true_on_cpus_unless_they_mask(
    tmp_path: Path, export: Callable
) -> None:
    ticks, keep = keras.Input((4,), name="ticks"), keras.Input((4,), name="keep")
    masked = keras.ops.max(ticks - (1.0 - keep) * 1e9, axis=-1, keepdims=True)
    model = keras.Model([ticks, keep], {"day": ticks + 2.4e6, "largest": masked})
    file = export(open_source(model), tmp_path / "m.tflite")
    batch = {"ticks": np.array([[1, 2, 3, 4.0]]), "keep": np.array([[1, 1, 0, 0.0]])}
    batch = {name: array.astype(np.float32) for name, array in batch.items()}
    with LiteRTRunner(file.path, force_fp16=False) as runner:
        received = runner.run(batch)
    np.testing.assert_array_equal(received["day"], batch["ticks"] + 2.4e6)
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        assert runner.run(batch)["largest"] == [[2.0]]  # infinity would make NaN of what is kept
    assert any("2.4e+06" in note for note in file.notes)


@pytest.mark.slow
def test_weights_past_two_gib_are_rounded_where_they_stand(
    convert: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, file = convert(dates)
    monkeypatch.setattr(export_module, "FLATBUFFER_LIMIT_BYTES", 100_000)
    again = export_module.export_tflite(source, file.path.with_name("again.tflite"))
    received, expected = TFLiteModel(again.path), TFLiteModel(file.path)
    assert "buffer_location" not in received.metadata
    assert received.tensors == expected.tensors
    pairs = zip(received.constants(), expected.constants(), strict=True)
    assert all(np.array_equal(received.constant(a), expected.constant(b)) for a, b in pairs)
    x = np.ones((2, 16), np.float32)
    np.testing.assert_array_equal(run(again.path, {"x": x}), run(file.path, {"x": x}))
