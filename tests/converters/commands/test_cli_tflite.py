"""TFLite from the command line: overflow found, refused, repaired and proven; signatures."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner, Result

from tfmp.converters import convert
from tfmp.converters.commands.cli import main
from tfmp.converters.shared.errors import InputError
from tfmp.converters.tflite.file.reader import TFLiteModel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: ModuleType) -> Path:
    """A working directory with a model that overflows, and enough samples for a verdict."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    keras.utils.set_random_seed(1)
    models.variance_overflow().save("variance.keras")
    x = np.random.default_rng(0).normal(size=(400, 1024)).astype(np.float32)
    np.savez("samples.npz", x=x)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.slow
def test_all_in_mixed_precision_is_mixed_onnx_and_repaired_tflite(folder: Path) -> None:
    arguments = ("all", "variance.keras", "-o", "out", "--data", "samples.npz", "--json")
    result = run(*arguments, "--precision", "mixed", "--budget", "flip_rate=0.02")
    assert result.exit_code == 0, result.output
    onnx, tflite = json.loads(result.stdout)["artifacts"]
    assert (onnx["precision"], tflite["precision"]) == ("mixed", "fp16")
    assert any(note.startswith("mixed precision: ") for note in onnx["notes"])
    assert "repaired layer norm: scaled by powers of two" in " ".join(tflite["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "tflite --precision mixed --data samples.npz",
            "Use precision fp16 with repair (--repair), or convert to ONNX.",
        ),
        ("tflite --repair", "values that overflow on samples, and this conversion has no data."),
        ("tflite --repair --data samples.npz --precision fp32", "repair is about FP16"),
        ("all --precision mixed", "finds the nodes that need FP32 on samples, and this conv"),
    ],
)
def test_a_repair_that_cannot_be_made_is_refused(
    folder: Path, arguments: str, message: str
) -> None:
    result = run(*arguments.split(), "variance.keras", "-o", "out/")
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_a_repair_says_that_it_changed_nothing(tmp_path: Path) -> None:
    x = keras.Input((16,), name="x")
    exp = keras.layers.Lambda(lambda x: keras.ops.exp(keras.ops.abs(x)), name="exp")(x)
    model = keras.Model(x, {"y": keras.ops.tanh(exp)}, name="m")
    rows = np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32)
    for scale, told in (
        (0.1, "repair changed nothing: no layer overflows in FP16 on these samples"),
        (5.0, "repair changed nothing: it has no rewrite for the layers that FP16 harms"),
    ):
        data = {"x": np.clip(rows * scale, -13, 13)}
        path = tmp_path / f"{scale}.tflite"
        assert told in convert(model, "tflite", path, data=data, repair=True).notes


def test_what_inspect_finds_is_its_exit_status(folder: Path, models: ModuleType) -> None:
    result = run("inspect", "variance.keras", "--data", "samples.npz", "--report", "audit.html")
    assert result.exit_code == 1, result.output
    assert "✗ overflows norm" in result.stdout
    assert "✗ overflows" in (folder / "audit.html").read_text()
    np.savez("small.npz", x=np.load("samples.npz")["x"][:4] * 0.01)
    result = run("inspect", "variance.keras", "--data", "small.npz", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stdout == "variance: no value overflows or vanishes in FP16, on 4 samples\n"
    result = run("inspect", "variance.keras")
    assert result.exit_code == 3, result.output
    assert "no samples were run" in result.stdout
    models.destroyed_constants().save("destroyed.keras")
    assert run("inspect", "destroyed.keras", "-q").exit_code == 1
    assert run("inspect", "missing.keras").exit_code == 2


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "which activations overflow or vanish in FP16 is unknown. Give real ones as data"),
        pytest.param(
            *(lambda x: ({"x": x[i : i + 4]} for i in (0, 4)), "the samples can be read only once"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_conversion_says_that_it_did_not_look_at_activations(
    data: Callable | None, told: str, tmp_path: Path, models: ModuleType
) -> None:
    x = np.ones((8, 1024), np.float32)
    given = None if data is None else data(x)
    artifact = convert(models.variance_overflow(), "tflite", tmp_path / "a.tflite", data=given)
    assert told in artifact.notes[0]


@pytest.mark.slow
def test_a_model_without_weights_is_run_in_fp16_too(tmp_path: Path) -> None:
    x = keras.Input((32,), name="x")
    model = keras.Model(x, {"y": keras.ops.sqrt(keras.ops.mean(x * x, -1, keepdims=True)) + x})
    rows = (np.random.default_rng(0).normal(size=(4, 32)) * 300).astype(np.float32)
    for precision, runner, fp16 in (("fp16", "litert-fp16", "native"), ("fp32", "litert", None)):
        path = tmp_path / f"{precision}.tflite"
        artifact = convert(model, "tflite", path, precision, data={"x": rows})
        (candidate,) = artifact.report.candidates
        assert (candidate.runner.name, candidate.runner.fp16) == (runner, fp16)


@pytest.mark.slow
def test_a_layer_that_overflows_fails_though_nothing_came_of_it_here(tmp_path: Path) -> None:
    def grow(x):
        return keras.ops.exp(keras.ops.minimum(keras.ops.abs(x) * 20, 12.0))

    x = keras.Input((16,), name="x")
    grown = keras.layers.Lambda(grow, name="grow")(x)
    tamed = keras.layers.Activation("tanh")(grown)  # of infinity: 1, as it should be
    model = keras.Model(x, {"y": keras.layers.Dense(1)(tamed)}, name="grows")
    rows = np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32)
    told = "layer grow ({}) reaches 1.63e+05, FP16 ends at 65504"
    end = (
        "layer grow reaches 1.63e+05, FP16 ends at 65504, and no rewrite keeps it below. As ONNX "
        "the model keeps to the budget on these samples: tfmp-convert onnx"
    )
    cases = ("overflows in FP16: ", "Exp"), ("not repaired: ", "Mul")  # which scales back
    for repair, (harm, op) in enumerate(cases):
        text = harm + told.format(op)
        artifact = convert(
            model,
            "tflite",
            tmp_path / "a.tflite",
            data={"x": rows},
            repair=bool(repair),
            force=True,
        )
        assert artifact.known.overflows == (text,)
        (candidate,) = artifact.report.candidates
        assert (candidate.verdict, candidate.reasons[0], candidate.reasons[-1]) == (
            "FAIL",
            text,
            end,
        )
    path = tmp_path / "plain.tflite"
    assert convert(model, "tflite", path, "fp32", data={"x": rows}).known.overflows == ()


@pytest.fixture
def saved_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two entry points to the same weights, neither with a usual name, and their samples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    keras.utils.set_random_seed(3)
    encoder = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, name="code")])
    decoder = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, name="decoded")])
    module = tf.Module()
    module.models = [encoder, decoder]
    module.variables_kept = [*encoder.variables, *decoder.variables]
    signature = [tf.TensorSpec((None, 32)), tf.TensorSpec((None, 32))]

    @tf.function(input_signature=signature)
    def encode(x, Bias):
        return {"z": encoder(x + Bias), "code": encoder(x)}

    @tf.function(input_signature=signature[:1])
    def reconstruct(x):
        return {"decoded": decoder(encoder(x))}

    functions = {"reconstruct": reconstruct, "encode": encode}
    tf.saved_model.save(module, "both", signatures=functions)
    rng = np.random.default_rng(0)
    x, bias = rng.normal(size=(2, 400, 32)).astype(np.float32)
    np.savez("encode.npz", x=x, Bias=bias)
    np.savez("reconstruct.npz", x=x)
    return tmp_path


@pytest.mark.slow
def test_one_signature_can_be_picked_and_is_the_one_compared(saved_model: Path) -> None:
    assert "signatures '" in run("tflite", "both", "-o", "both.tflite").stdout
    for name in ("encode", "reconstruct"):
        result = run(
            *("validate", "both", "both.tflite", "--signature", name, "--data", f"{name}.npz"),
            *("--budget", "flip_rate=1", "--latency", "--json"),
        )
        assert result.exit_code == 0, result.output
        (candidate,) = json.loads(result.stdout)["candidates"]
        assert candidate["latency"], candidate["notes"]
    result = run("tflite", "both", "-o", "one.tflite", "--signature", "reconstruct")
    assert result.exit_code == 0, result.output
    assert set(TFLiteModel(saved_model / "one.tflite").signatures) == {"serving_default"}
    assert run("onnx", "both", "-o", "both.onnx").exit_code == 2


def test_repair_works_on_one_signature(saved_model: Path) -> None:
    with pytest.raises(InputError, match="repair works on one signature, received a SavedModel"):
        convert("both", "tflite", "both.tflite", data="encode.npz", repair=True)


@pytest.mark.slow
def test_what_keras_exports_under_two_names_is_one_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.export("exported", verbose=False)
    assert run("tflite", "exported", "-o", "one.tflite", "-q").exit_code == 0
    assert set(TFLiteModel(tmp_path / "one.tflite").signatures) == {"serving_default"}
