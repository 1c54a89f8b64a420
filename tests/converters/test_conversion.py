"""convert() and validate(): verdicts that can be trusted on a machine without a GPU."""

import os

import keras
import keras_models
import numpy as np
import onnx
import pytest

from tfmp.converters import Artifact, DriftBudget, convert, open_source, validate
from tfmp.converters.shared.errors import InputError


def samples(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *shape), dtype=np.float32)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A small classifier and its two FP16 files."""
    folder = tmp_path_factory.mktemp("converted")
    model = keras_models.dense()
    return model, [
        convert(model, to=kind, output=folder / f"dense.{kind}") for kind in ("onnx", "tflite")
    ]


def test_an_open_model_may_outlive_its_file(tmp_path):
    convert(keras_models.dense(), output=tmp_path / "dense.onnx", precision="fp32")
    source = open_source(tmp_path / "dense.onnx")
    (tmp_path / "dense.onnx").unlink()
    for force in (False, True):
        written = convert(source, output=tmp_path / "half.onnx", force=force)
        onnx.checker.check_model(str(written.path), full_check=True)


def test_artifacts_describe_their_files(converted):
    _, artifacts = converted
    for artifact, kind in zip(artifacts, ("onnx", "tflite"), strict=True):
        assert isinstance(artifact, Artifact)
        assert (artifact.format, artifact.precision) == (kind, "fp16")
        assert artifact.size_bytes == artifact.path.stat().st_size
        assert len(artifact.sha256) == 64
    onnx.checker.check_model(str(artifacts[0].path), full_check=True)
    model, artifacts = converted
    report = validate(model, artifacts, samples(400, 6))
    assert report.verdict == "PASS"
    assert [c.verdict for c in report.candidates] == ["PASS", "PASS"]
    assert [c.runner.fp16 for c in report.candidates] == ["emulated", "native"]
    assert all(0 < c.outputs[0].rel_l2 < 5e-3 for c in report.candidates)
    assert report.candidates[0].outputs[0].samples == 400


@pytest.mark.slow
def test_a_batch_that_the_model_fixes_is_measured_and_judged_with_data(tmp_path):
    x = keras.Input(batch_shape=(32, 6), name="x")
    places = np.arange(32 * 6, dtype=np.float32).reshape(32, 6) / 200  # one for each sample
    model = keras.Model(x, keras.layers.Dense(3, name="y")(x + places))
    file = convert(model, "tflite", tmp_path / "fixed.tflite", data={"x": samples(70, 6)})
    (output,) = file.report.candidates[0].outputs
    assert (output.samples, output.rel_l2 < 1e-2) == (64, True)


def test_keep_fp32_keeps_a_layer(tmp_path):
    artifact = convert(keras_models.dense(), output=tmp_path / "kept.onnx", keep_fp32=["scores"])
    assert any(note.startswith("kept in FP32: ") for note in artifact.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "coreml"}, "to: expected one of onnx, tflite, received 'coreml'"),
        ({"to": "tflite", "keep_fp32": ["x"]}, "keep_fp32 is no option of a conversion to tflite"),
        ({"precision": "fp32", "keep_fp32": ["x"]}, "keep_fp32 is about FP16 files, received"),
        ({"batches": 2}, "is no option of a conversion to onnx"),
        ({"output": "model.txt"}, "expected an output file ending in .onnx"),
        ({"output": 3}, "output expects a path, .*; received 3 of type int"),
        ({"labels": np.arange(3)}, r"labels \(--labels\) needs samples to compare on, and this"),
        ({"data": samples(4, 6), "labels": np.full(4, 9)}, "hold class id 9, but the output has 3"),
        ({"data": samples(4, 5)}, r"features"),
        ({"data": {"wrong": samples(4, 6), "more": samples(4, 6)}}, "features"),
        ({"data": samples(4, 6), "budget": DriftBudget(overrides={"no": {}})}, "output 'no'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        convert(keras_models.dense(), **options)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "no candidate to validate"),
        (3, "expected a candidate to be a path or an Artifact, received int"),
    ],
)
def test_bad_candidates_are_refused(candidates, message):
    with pytest.raises(InputError, match=message):
        validate(keras_models.dense(), candidates, samples(4, 6))
