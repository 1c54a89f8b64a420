"""Drift is attributed to the layer that makes it, in ONNX and in TFLite, and shown there alone."""

import re
import subprocess
import sys
from pathlib import Path

import keras
import keras_models
import litert_models
import numpy as np
import onnx
import pytest
from quick import quick

from tfmp.converters import DriftBudget, convert, open_source, validate
from tfmp.converters.explain import onnx_candidate
from tfmp.converters.explain.explainer import _answer
from tfmp.converters.explain.samples import Sample
from tfmp.converters.onnx.emulation.profiles import GPU
from tfmp.converters.report.explanation import Explanation
from tfmp.converters.report.merge import merge_reports
from tfmp.converters.report.model import DriftReport, render
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.tflite.file import TFLiteModel

# By format: what small models lose is behind their last product.
OPTIONS = {"onnx": {"fp16_edges": True}}


def samples(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *shape), dtype=np.float32)


def explained(report: DriftReport) -> dict[str, Explanation]:
    found = {candidate.format: candidate.explanation for candidate in report.candidates}
    assert all(e is not None and e.error is None for e in found.values()), found
    return found  # type: ignore[return-value]


def reproduce(folder: str | Path) -> str:
    result = subprocess.run(
        [sys.executable, "reproduce.py"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def overflow(tmp_path_factory) -> tuple[DriftReport, Path]:
    """A square that overflows, in both formats, on samples of which the tenth is the worst."""
    folder = tmp_path_factory.mktemp("overflow")
    model = keras_models.square_overflow()
    files = [
        convert(model, to=to, output=folder / f"model.{to}", **OPTIONS.get(to, {}))
        for to in ("onnx", "tflite")
    ]
    x = samples(40, 1024) / 100
    x[10] *= 400
    return validate(model, files, x, explain=folder / "shown"), folder / "shown"


@pytest.fixture(scope="module")
def dense(tmp_path_factory) -> tuple[keras.Model, Path]:
    model = keras_models.dense()
    path = tmp_path_factory.mktemp("dense") / "half.onnx"
    return model, convert(model, output=path).path


@pytest.mark.parametrize("format", ["onnx", "tflite"])
def test_the_operation_that_overflows_first_is_named(overflow, format: str) -> None:
    found = explained(overflow[0])[format]
    # ONNX files know Keras's name of a call of `keras.ops`, which counts those of the process.
    name = {"onnx": r"square(_\d+)?", "tflite": "Square"}[format]
    layer = found.culprit.layer
    assert found.first_nonfinite == found.largest_jump == layer
    assert re.fullmatch(name, layer)
    assert found.culprit.why == "first value that is not finite"
    assert re.fullmatch(r"square_overflow_1/(tfmp_layer_\d+/)?Square", found.culprit.node)
    assert found.culprit.local_nonfinite > 100
    before = found.layers[[layer.layer for layer in found.layers].index(layer) - 1]
    assert before.cumulative < 1e-3
    assert found.baseline < 1e-6


@pytest.mark.parametrize("format", ["onnx", "tflite"])
def test_nodes_and_graph_have_the_names_that_the_file_gives_them(overflow, format: str) -> None:
    report, _ = overflow
    found = explained(report)[format]
    path = Path(next(c.path for c in report.candidates if c.format == format))
    if format == "onnx":
        graph = onnx.load(path).graph
        names = {node.name for node in graph.node}
    else:
        graph = TFLiteModel(path).content.subgraphs[0]
        names = {graph.tensors[one.outputs[0]].name.decode() for one in graph.operators}
    assert {name for layer in found.layers for name in layer.nodes} <= names
    assert found.culprit.node in names
    assert found.graph == (graph.name if format == "onnx" else graph.name.decode())


@pytest.mark.parametrize("format", ["onnx", "tflite"])
def test_the_worst_sample_is_found_among_all(overflow, format: str) -> None:
    found = explained(overflow[0])[format]
    assert found.worst[0].index == 10
    assert found.worst[0].error > 100 * found.worst[1].error
    assert found.samples == len(found.worst) == 10


@pytest.mark.parametrize("format", ["onnx", "tflite"])
def test_the_saved_node_shows_the_error_by_itself(overflow, format: str) -> None:
    report, folder = overflow
    culprit = explained(report)[format].culprit
    assert Path(culprit.folder) == folder / f"model.{format}"
    result = reproduce(culprit.folder)
    lost = re.search(r"y0: relative L2 error \S+, (\d+) of 1024 values not finite", result)
    assert int(lost[1]) == culprit.local_nonfinite, "the script prints what the report printed"
    with np.load(Path(culprit.folder, "inputs.npz")) as inputs:
        assert all(len(array) == 1 for array in inputs.values()), "one sample is enough"
    if format == "onnx":
        model = onnx.load(Path(culprit.folder, "node.onnx"))
        onnx.checker.check_model(model, full_check=True)
        assert {node.op_type for node in model.graph.node} == {"Mul", "Cast"}, "and its rounding"
        assert [value.name for value in model.graph.input] == ["x0"]


@pytest.mark.slow
def test_an_overflow_inside_a_tflite_layer_is_found_although_its_results_are_finite(
    tmp_path: Path,
) -> None:
    model = litert_models.variance_overflow(64)
    file = convert(model, to="tflite", output=tmp_path / "v.tflite")
    (found,) = explained(validate(model, file, samples(12, 64), explain=True)).values()
    assert found.first_nonfinite == found.largest_jump == "norm"
    assert found.culprit.op == "SQUARED_DIFFERENCE"
    assert found.culprit.folder is None
    assert [layer.layer for layer in found.layers] == ["scale", "norm", "head"]
    assert found.layers[0].cumulative < 1e-3


class Rough(keras.layers.Layer):
    """Adds and takes away so much that FP16 keeps three digits."""

    def call(self, x):
        large = 30.0 + keras.ops.abs(x)
        return (x + large) - large


def test_the_one_bad_layer_among_good_ones_is_named(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    image = keras.Input((16, 16, 3), name="image")
    x = keras.layers.Conv2D(4, 3, activation="relu", name="first")(image)
    x = Rough(name="rough")(x)
    x = keras.layers.Conv2D(4, 3, name="second")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    model = keras.Model(image, keras.layers.Dense(3, name="head")(x), name="net")
    file = convert(model, output=tmp_path / "net.onnx")
    budget = DriftBudget(rel_l2=0.5)
    report = validate(model, file, samples(20, 16, 16, 3), budget=budget, explain=True)
    (found,) = explained(report).values()
    assert found.first_nonfinite is None
    assert found.largest_jump == found.culprit.layer == "rough"
    assert found.culprit.why == "largest jump of the error"
    layers = {layer.layer: layer for layer in found.layers}
    assert layers["rough"].local > 5 * max(
        layer.local for name, layer in layers.items() if name != "rough"
    )
    assert 1e-3 < layers["rough"].cumulative < 0.1
    assert layers["rough"].jump > 0.5 * layers["rough"].cumulative
    assert all(sample.thumbnail for sample in found.worst)
    page = render(report, ".html")
    assert "layer &#39;rough&#39; adds most drift" in page
    assert page.count("data:image/png;base64,") == 10
    assert "layer 'rough' adds most drift" in render(report, ".md")


def test_a_loop_is_saved_with_what_its_body_reads_and_nothing_else(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((5, 3), name="steps")
    y = keras.layers.GRU(4, name="loop")(keras.layers.Dense(4, name="first")(x))
    model = keras.Model(x, keras.layers.Dense(2, name="head")(y), name="net")
    file = convert(model, output=tmp_path / "net.onnx").path
    candidate = onnx_candidate.OnnxCandidate(file, GPU, open_source(model))
    (loop,) = (
        name
        for name in [str(part.name) for part in candidate.nodes("loop").parts]
        if candidate.op(name) == "Loop"
    )
    batch = {"steps": samples(1, 5, 3)}
    candidate.save_node(loop, batch, candidate.nodes("loop").run(batch), tmp_path)
    saved = onnx.load(tmp_path / "node.onnx")
    assert {node.op_type for node in saved.graph.node} <= {"Loop", "Cast"}
    result = reproduce(tmp_path)
    assert all(float(error) < 2e-3 for error in re.findall(r"error (\S+),", result))


@pytest.mark.parametrize("format", ["onnx", pytest.param("tflite", marks=pytest.mark.slow)])
def test_a_layer_behind_an_output_is_taken_apart_alone(tmp_path: Path, format: str) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    middle = keras.layers.Dense(4, name="middle")(x)
    model = keras.Model(x, {"middle": middle, "end": Rough(name="end")(middle)}, name="net")
    file = convert(model, to=format, output=tmp_path / f"net.{format}", **OPTIONS.get(format, {}))
    report = validate(model, file, samples(8, 6), explain=tmp_path / "shown")
    (found,) = explained(report).values()
    assert found.culprit.layer == "end"
    # LiteRT rounds what an operation reads, so that there the difference is off as well.
    assert found.culprit.op in ("Add", "SUB")
    error = f"y0: relative L2 error {found.culprit.local:.3g}"
    assert error in reproduce(found.culprit.folder), "the script prints what the report printed"


@pytest.mark.parametrize("build", quick([keras_models.lstm, keras_models.transformer]))
def test_loops_and_attention_can_be_taken_apart(tmp_path: Path, build) -> None:
    model = build()
    shape = [size or 5 for size in model.inputs[0].shape[1:]]
    file = convert(model, output=tmp_path / "net.onnx")
    report = validate(model, file, samples(8, *shape), explain=tmp_path / "shown")
    (found,) = explained(report).values()
    assert all(layer.local < 2e-3 and layer.cumulative < 2e-3 for layer in found.layers)
    assert max(layer.cumulative for layer in found.layers) > 1e-4
    assert found.notes == (), "every weight is found in the reference"
    assert Path(found.culprit.folder, "reproduce.py").exists()


@pytest.mark.slow
def test_a_tflite_layer_may_end_in_a_loop(tmp_path: Path) -> None:
    model = keras_models.lstm()
    file = convert(model, to="tflite", output=tmp_path / "net.tflite")
    (found,) = explained(validate(model, file, samples(4, 7, 5), explain=True)).values()
    # Keras numbers the names of a class's layers in a process.
    assert [re.sub(r"_\d+", "", layer.layer) for layer in found.layers] == [
        "lstm",
        "bidirectional/backward_gru",
        "bidirectional/forward_gru",
        "bidirectional",
        "out",
    ]
    assert all(1e-5 < layer.cumulative < 1e-2 for layer in found.layers)


@pytest.mark.slow
def test_a_tflite_file_that_keeps_its_values_says_what_to_do(tmp_path: Path) -> None:
    model = keras_models.conv()
    file = convert(model, to="tflite", output=tmp_path / "net.tflite", dynamic_batch=True)
    (candidate,) = validate(model, file, samples(4, 12, 12, 3), explain=True).candidates
    assert candidate.error is None
    assert len(candidate.explanation.worst) == 4
    assert candidate.explanation.error == (
        "LiteRT does not hand out inner values of a file whose sizes are known only while it runs. "
        "Explain a file with a fixed batch: convert without --dynamic"
    )


def test_a_file_in_fp32_has_samples_but_no_layers(tmp_path: Path) -> None:
    model = keras_models.dense()
    file = convert(model, output=tmp_path / "full.onnx", precision="fp32")
    (found,) = explained(validate(model, file, samples(20, 6), explain=True)).values()
    assert found.layers == ()
    assert found.culprit is None
    assert found.notes == ("the file computes in FP32: no layer rounds to FP16",)


def test_weights_that_the_reference_does_not_have_are_said(dense) -> None:
    other = keras_models.dense()
    other.layers[0].set_weights([w + 0.01 for w in other.layers[0].get_weights()])
    (found,) = explained(validate(other, dense[1], samples(20, 6), explain=True)).values()
    assert "48 of 72 constants of the file were not found in the reference" in found.notes[0]
    assert found.baseline > 1e-3


def test_a_failure_costs_the_layers_not_the_report(dense, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise RunnerError("ONNX Runtime cannot load the model: too large")

    monkeypatch.setattr(onnx_candidate, "OnnxTaps", fail)
    report = validate(*dense, samples(20, 6), explain=True)
    found = report.candidates[0].explanation
    assert found.error == "ONNX Runtime cannot load the model: too large"
    assert len(found.worst) == 10
    assert "layers not measured: ONNX Runtime cannot load" in render(report, ".html")


def test_convert_explains_too(tmp_path: Path) -> None:
    artifact = convert(
        keras_models.dense(), output=tmp_path / "a.onnx", data=samples(20, 6), explain=True
    )
    assert artifact.report.candidates[0].explanation.layers


def test_it_is_left_out_unless_asked_for(dense) -> None:
    report = validate(*dense, samples(4, 6))
    assert report.candidates[0].explanation is None


def test_the_report_survives_its_json(overflow) -> None:
    report = overflow[0]
    # As text: from Python 3.13 on, a NaN in a dataclass makes it unequal to itself.
    assert repr(DriftReport.from_dict(report.to_dict())) == repr(report)


def test_shards_keep_their_explanations_to_themselves(overflow, dense) -> None:
    assert repr(merge_reports([overflow[0]])) == repr(overflow[0])
    parts = [validate(*dense, samples(8, 6, seed=s), explain=s == 1) for s in (1, 2)]
    (merged,) = merge_reports(parts).candidates
    assert merged.explanation is None
    assert "explanations are not merged: see the report of each shard" in merged.notes


@pytest.mark.parametrize(
    ("explain", "message"),
    [
        (3, r"explain: expected True, False or a folder, received 3 \(int\)"),
        ("a.onnx/folder", "a.onnx/folder': Not a directory"),
    ],
)
def test_what_it_cannot_be_is_said_before_any_work(
    explain: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.onnx").touch()
    with pytest.raises(InputError, match=message):
        validate("unread.keras", "a.onnx", explain=explain)


def test_the_answers_of_both_sides_are_told_and_one_answer_once() -> None:
    scores = np.array([0.1, 0.7, 0.2], np.float32)
    told = [
        _answer(Sample(3, 0.1, {}, {"y": scores}, {"y": received}), ["y"])
        for received in (scores, np.roll(scores, 1), scores * np.nan)
    ]
    assert told == [
        "class 1 in both",
        "class 1, candidate class 2",
        "class 1, candidate no finite score",
    ]
