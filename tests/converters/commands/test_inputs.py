"""A flag says of a wrong value what the keyword of its name says, in the same words."""

from pathlib import Path

import keras_models
import numpy as np
import pytest
from click.testing import CliRunner

from tfmp.converters import convert
from tfmp.converters.commands.cli import main
from tfmp.converters.commands.inputs import check_inputs_stay
from tfmp.converters.intake import ModelRequest
from tfmp.converters.shared.errors import InputError

X = np.ones((2, 6), np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs")
    keras_models.dense().save(path / "dense.keras")
    np.savez(path / "x.npz", X)
    return path


def refused_by_command(folder: Path, to: str, *flags: str) -> str:
    model, output = str(folder / "dense.keras"), str(folder / f"no.{to}")
    result = CliRunner().invoke(main, [to, model, "-o", output, *flags])
    assert (result.exit_code, result.stdout) == (2, "")
    assert list(folder.glob("no.*")) == []
    return result.stderr.removeprefix("Error: ").rstrip()


@pytest.mark.parametrize(
    ("to", "flags", "keywords", "message"),
    [
        ("onnx", "--emulate x", {"emulate": "x"}, "emulate: expected 'gpu', 'pessimistic"),
        ("onnx", "--ray auto --workers 0", {"ray": "auto", "workers": 0}, "workers: expected a w"),
        ("onnx", "--workers 2", {"workers": 2}, "workers (--workers) are Ray's"),
        ("onnx", "--ray nowhere", {"ray": "nowhere"}, "ray: expected local, auto or HOST:PORT"),
        ("onnx", "--opset 12", {"opset": 12}, "opset: expected a number from 13"),
        ("onnx", "--target amd", {"target": "amd"}, "target: expected one of any, ort-cpu"),
        ("onnx", "--keep-fp32 (", {"keep_fp32": ["("]}, "keep_fp32: '(' is not a regular"),
        ("onnx", "--batch 0", {"batch_size": 0}, "batch_size (--batch): expected a whole number"),
        (
            "tflite",
            "--precision mixed",
            {"precision": "mixed"},
            "precision mixed (--precision) is",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("--") else "",
)
def test_a_wrong_value_has_one_sentence(folder, to, flags, keywords, message):
    said = refused_by_command(folder, to, *flags.split(), "--data", str(folder / "x.npz"))
    assert said.startswith(message)
    with pytest.raises(InputError) as caught:
        convert(folder / "dense.keras", to, folder / f"no.{to}", data=X, **keywords)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("to", "name"),
    [
        *(("onnx", name) for name in ("split", "latency", "force", "external_data", "fp16_io")),
        *(("tflite", name) for name in ("dynamic_batch", "allow_flex", "repair")),
    ],
)
def test_a_flag_is_true_or_false(folder, to, name):
    """Else a caller's "no" would count as yes."""
    with pytest.raises(InputError, match=f"{name}: expected True or False, received 'no'"):
        convert(folder / "dense.keras", to, folder / f"no.{to}", data=X, **{name: "no"})


def test_a_budget_is_a_drift_budget(folder, tmp_path):
    with pytest.raises(InputError, match=r"budget: expected a DriftBudget, as in DriftBudget\(rel"):
        convert(folder / "dense.keras", "onnx", data=X, budget={"rel_l2": 0.1})
    # And not a list of letters, of which every layer has some.
    artifact = convert(folder / "dense.keras", "onnx", tmp_path / "m.onnx", keep_fp32="scores")
    assert [note for note in artifact.notes if "(scores)" in note]
    assert not [note for note in artifact.notes if "kept by request (s)" in note]


@pytest.mark.parametrize("given", [(), ("--architecture", "dense.json")])
def test_a_report_replaces_no_architecture(folder, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    model = keras_models.dense()
    model.save_weights("dense.weights.h5")
    Path("dense.json").write_text(model.to_json())
    options = ("--data", str(folder / "x.npz"), "--report", "dense.json", "--force", *given)
    for command in ("onnx", "inspect", "validate"):
        others = ("dense.onnx",) if command == "validate" else ()
        result = CliRunner().invoke(main, [command, "dense.weights.h5", *others, *options])
        assert result.exit_code == 2
        assert "--report dense.json: this command reads this file." in result.stderr
    assert Path("dense.json").read_text() == model.to_json()


def test_a_report_may_replace_an_older_one_beside_the_model(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dense.json").write_text("{}")
    request = ModelRequest(str(folder / "dense.keras"))
    check_inputs_stay(["dense.json"], request.files)
    (folder / "dense.json").write_text("{}")
    check_inputs_stay([str(folder / "dense.json")], request.files)
    (folder / "dense.json").unlink()
