"""A format that cannot express the model spares the other; a FAIL names what would fix the file."""

from pathlib import Path

import keras
import keras_models
import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters import DriftBudget, convert, validate
from tfmp.converters.comparison import Plan
from tfmp.converters.conversion import convert_files, targets_of
from tfmp.converters.formats import format_named
from tfmp.converters.shared.errors import ConversionError
from tfmp.shared.progress import SILENT


def convert_all(folder: Path, broken: list[str], monkeypatch) -> None:
    def fail(*_):
        raise ConversionError("no form for this layer.")

    for name in broken:
        monkeypatch.setattr(type(format_named(name)), "write", fail)
    model = keras_models.dense()
    outputs = {"onnx": str(folder / "m.onnx"), "tflite": str(folder / "m.tflite")}
    targets = targets_of(model, outputs, "fp32", {}, False, False)
    convert_files(model, targets, None, None, Plan.of(), SILENT)


def test_the_other_file_is_written_and_named(tmp_path: Path, monkeypatch):
    message = r"^no form for this layer\. Converted, but not compared: .*m\.tflite\.$"
    with pytest.raises(ConversionError, match=message):
        convert_all(tmp_path, ["onnx"], monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == ["m.tflite"]


def test_complex_numbers_are_refused_once_for_all_formats(tmp_path: Path):
    """Either format's own error would send to the other one."""

    @tf.function(input_signature=[tf.TensorSpec((None, 4))], autograph=False)
    def spectrum(x):
        return {"bins": tf.signal.rfft(x)}

    with pytest.raises(ConversionError, match=r"output 'bins' is complex64.*tf\.math\.real"):
        convert(spectrum, "onnx", tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


REMEDY = "Convert with --precision mixed (precision='mixed')"


def scaled() -> keras.Model:
    x = keras.Input((8,), name="x")
    large = keras.layers.Rescaling(1e6, name="large")(x)
    return keras.Model(x, {"y": keras.layers.Rescaling(1e-6, name="small")(large)})


def test_validating_the_file_names_it_too(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    path = convert(scaled(), "onnx", tmp_path / "m.onnx", fp16_edges=True).path
    report = validate(scaled(), path, {"x": x + 1}, budget=DriftBudget(rel_l2=1e-5))
    (candidate,) = report.candidates
    assert REMEDY in candidate.reasons[-1]
    assert candidate.remedy_flags == "--precision mixed"
    assert REMEDY not in report.judged_by(DriftBudget(rel_l2=1)).candidates[0].reasons[-1]
