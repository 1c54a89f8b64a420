"""A format that cannot express the model does not keep the other from being written."""

from pathlib import Path

import keras_models
import pytest

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


def test_the_other_file_is_written_and_named(tmp_path: Path, monkeypatch, converter):
    message = r"^no form for this layer\. Converted all the same, and not compared: .*m\.tflite\.$"
    with pytest.raises(ConversionError, match=message):
        convert_all(tmp_path, ["onnx"], monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == ["m.tflite"]


def test_a_model_that_no_format_can_express_is_told_of_once(tmp_path: Path, monkeypatch, converter):
    with pytest.raises(ConversionError, match=r"^no form for this layer\.$"):
        convert_all(tmp_path, ["onnx", "tflite"], monkeypatch)
    assert list(tmp_path.iterdir()) == []
