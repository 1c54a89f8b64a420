"""convert() and validate(): verdicts that can be trusted on a machine without a GPU."""

import os
from collections.abc import Callable
from pathlib import Path

import keras
import keras_models
import numpy as np
import onnx
import pytest
import tensorflow as tf

from tfmp.converters import Artifact, DriftBudget, convert, open_source, validate
from tfmp.converters.comparison import Plan
from tfmp.converters.conversion import convert_files, targets_of
from tfmp.converters.formats import format_named
from tfmp.converters.runners import OnnxRunner
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.experiment.loading import load_task
from tfmp.shared.progress import SILENT


def samples(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *shape), dtype=np.float32)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
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


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A float32 model whose weights have the name that its conversion's would once have had."""
    convert(keras_models.conv(), output=tmp_path / "model_fp32.onnx", precision="fp32")
    model = onnx.load(tmp_path / "model_fp32.onnx")
    onnx.save(
        model, tmp_path / "model_fp32.onnx", save_as_external_data=True,
        location="model.onnx.data", size_threshold=256,
    )  # fmt: skip
    return tmp_path / "model_fp32.onnx"


def run(path: Path) -> np.ndarray:
    runner = OnnxRunner(path)
    (spec,) = runner.inputs
    size = tuple(4 if size is None else size for size in spec.shape)
    batch = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    return next(iter(runner.run({spec.name: batch}).values()))


@pytest.mark.parametrize("external", [True, False])
def test_the_input_keeps_its_weights(original, external):
    before = run(original)
    for _ in range(2):
        convert(
            original, output=original.with_name("model.onnx"), external_data=external, force=True
        )
        np.testing.assert_array_equal(run(original), before)
        np.testing.assert_allclose(run(original.with_name("model.onnx")), before, atol=0.02)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "metric", "verdict"),
    [
        ("segmentation", "classification", "mean IoU", "INCONCLUSIVE"),  # of 128 pictures
        ("tabular", "regression", "mean absolute error", "PASS"),
    ],
)
def test_a_trained_model_is_judged_on_what_it_was_not_trained_with(
    name: str, kind: str, metric: str, verdict: str, tmp_path: Path
):
    task = load_task(name)
    keras.utils.set_random_seed(0)
    model = task.build()
    model.fit(*task.train, epochs=task.epochs, batch_size=task.batch_size, verbose=0)
    x, y = task.test
    report = convert(model, "onnx", tmp_path / "m.onnx", data=x, labels=y).report
    (candidate,) = report.candidates
    assert candidate.verdict == verdict, candidate.reasons
    assert candidate.outputs[0].task.kind == kind
    assert metric in [one.name for one in candidate.labels[0].metrics]
    assert not [check.text for check in candidate.checks if check.verdict == "FAIL"]


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
