"""Weights that are NaN are told as such, and not as an export that went wrong."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from tfmp.converters import convert
from tfmp.converters.shared.errors import ConversionError


def largest(x: keras.KerasTensor) -> keras.KerasTensor:
    """The index of the largest number: of NaN each runtime has its own."""
    return keras.ops.ones((1, 5)) * keras.ops.cast(keras.ops.argmax(x, -1, keepdims=True), x.dtype)


def diverged(layer: str | None, activation: Callable | None = None) -> keras.Model:
    x = keras.Input((6,), name="x")
    hidden = keras.layers.Dense(5, activation, name="first")(x)
    model = keras.Model(x, keras.layers.Dense(3, name="last")(hidden), name="m")
    if layer is not None:
        kernel = model.get_layer(layer).kernel
        values = keras.ops.convert_to_numpy(kernel).copy()
        values[0, 0] = np.nan
        kernel.assign(values)
    return model


def test_an_export_that_differs_over_nan_names_the_layer(tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(diverged("first", largest), "onnx", tmp_path / "out" / "m.onnx")
    assert str(caught.value) == (
        "model 'm': its weights are NaN in kernel of layer 'first' (1 of 30 values), so output "
        "'last' cannot be compared with an export. Convert a checkpoint from before "
        "the training diverged."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["onnx", "tflite"])
@pytest.mark.parametrize(
    ("layer", "notes"),
    [("last", ["weights are NaN: kernel of layer 'last' (1 of 15 values)"]), (None, [])],
)
def test_a_file_with_nan_has_a_note(to: str, layer: str | None, notes: list[str], tmp_path) -> None:
    artifact = convert(diverged(layer), to, tmp_path / f"m.{to}", "fp32")
    assert [note for note in artifact.notes if "NaN" in note] == notes


def test_an_onnx_file_with_nan_has_a_note(tmp_path: Path) -> None:
    convert(diverged("last"), "onnx", tmp_path / "m.onnx", "fp32")
    (note,) = convert(tmp_path / "m.onnx", "onnx", tmp_path / "half.onnx").notes
    assert note.startswith("weights are NaN: ")
    assert note.endswith("(1 of 15 values)")
