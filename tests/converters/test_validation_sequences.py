"""Models that keep states are compared over sequences; samples may lie on any axis."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import tensorflow as tf
from onnx_graphs import parse
from quick import quick

from tfmp.converters import convert, open_source, validate
from tfmp.converters.comparison import Plan
from tfmp.converters.inspection import inspect_model
from tfmp.converters.shared.errors import InputError
from tfmp.converters.validation import open_model, open_samples
from tfmp.shared.progress import SILENT

# A leaky sum: what FP16 loses in a step is still there in the next ones.
LEAKY = """
leaky (float[{N}, 4] x, float[2, {N}, 4] state) => (float[{N}, 4] y, float[2, {N}, 4] stateN)
<float keep = {{0.9}}, int64[1] first = {{0}}> {{
    stateN = Add(Mul(state, keep), MatMul(x, w))
    y = ReduceSum <keepdims = 0> (stateN, first)
}}
"""
PLAIN = "plain (float[{N}, 4] x) => (float[{N}, 4] y) {{ y = MatMul(x, w) }}"
WEIGHTS = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    """An ONNX file whose samples lie on the second axis of its state."""
    return written(LEAKY, "N", tmp_path)


def written(text: str, samples: str, folder: Path) -> Path:
    path = folder / f"of_{samples}.onnx"
    onnx.save(parse(text.format(N=samples), w=WEIGHTS), path)
    return path


def sequences(samples: int, steps: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((samples, steps, 4)).astype(np.float32)


def by_hand(path: Path, x: np.ndarray) -> np.ndarray:
    """The answers to each step, from ONNX's own interpreter."""
    from onnx.reference import ReferenceEvaluator

    model = ReferenceEvaluator(onnx.load(path))
    state = np.zeros((2, len(x), 4), np.float32)
    answers = []
    for step in range(x.shape[1]):
        y, state = model.run(None, {"x": x[:, step], "state": state})
        answers.append(y)
    return np.stack(answers, axis=1)


def compared(model: object, data: object) -> tuple[np.ndarray, ...]:
    """The reference's outputs on the first batch of data, as they are compared."""
    source = open_model(model, SILENT)
    samples = open_samples(source, data, None, Plan())
    batch = samples.first()
    assert batch is not None
    return tuple(samples.layout.run(source.forward, source.inputs, batch.inputs).values())


def test_a_state_goes_from_step_to_step(leaky: Path):
    x = sequences(5, 7)
    (answers,) = compared(leaky, {"x": x})
    np.testing.assert_allclose(answers, by_hand(leaky, x), rtol=1e-5, atol=1e-5)
    data = {"x": sequences(6, 1)[:, 0], "state": np.ones((6, 2, 4), np.float32)}
    y, state = compared(leaky, data)
    assert (y.shape, state.shape) == ((6, 4), (6, 2, 4))  # the state's second axis is the samples'
    source = open_source(leaky, states={"state": "stateN"}, sample_axes={"state": 1, "stateN": 1})
    (answers,) = compared(source, sequences(3, 4))  # one array for the only input that is left
    np.testing.assert_allclose(answers, by_hand(leaky, sequences(3, 4)), rtol=1e-5, atol=1e-5)


def test_drift_adds_up_over_the_steps(leaky: Path):
    """One step alone does not show it."""
    drift = []
    for steps in (1, 40):
        file = convert(
            leaky, output=leaky.with_name(f"{steps}.onnx"), data={"x": sequences(70, steps)}
        )
        (output,) = file.report.candidates[0].outputs
        assert output.name == "y"
        assert output.samples == 70
        drift.append(output.max_abs)
    assert drift[1] > 1.5 * drift[0]


def test_the_report_says_which_input_was_taken_for_a_state(leaky: Path):
    report = convert(leaky, output=leaky.with_name("out.onnx"), data={"x": sequences(5, 3)}).report
    assert any("--state state=stateN" in note for note in report.data.notes)
    x = sequences(8, 3)
    source = open_model(leaky, SILENT)
    samples = open_samples(source, ({"x": x[at : at + 4]} for at in (0, 4)), None, Plan())
    (first, second) = (call for call in samples.read())
    np.testing.assert_array_equal(first.inputs["x"], x[:4])
    np.testing.assert_array_equal(second.inputs["x"], x[4:])
    assert any("--state state=stateN" in note for note in samples.stream.notes)


@pytest.mark.parametrize("data", [lambda x: x, lambda x: iter([x]), lambda x: lambda: iter([x])])
def test_arrays_without_names_are_told_how_to_declare_states(leaky: Path, data):
    with pytest.raises(InputError, match=r"hand inputs to the next step \(--state state=stateN\)"):
        open_samples(open_model(leaky, SILENT), data(sequences(8, 3)), None, Plan())


@pytest.mark.parametrize(
    ("labels", "kind", "judged"),
    [
        (np.arange(9) % 4, "class ids", "last step"),
        (np.full((9, 4), 0.5, np.float32), "regression", "last step"),
        (np.arange(27).reshape(9, 3) % 4, "class ids", ""),
    ],
)
def test_labels_are_of_sequences_or_of_steps(
    leaky: Path, labels: np.ndarray, kind: str, judged: str
):
    x = sequences(9, 3)
    report = validate(leaky, convert(leaky, output=leaky.with_name("o.onnx")), {"x": x}, labels)
    (candidate,) = report.candidates
    (found,) = candidate.labels
    assert found.kind == kind
    assert any("judged" in note for note in candidate.notes) == bool(judged)
    answers = by_hand(leaky, x)[:, -1] if judged else by_hand(leaky, x)
    if kind == "regression":
        assert found.reference == pytest.approx(np.abs(answers - labels).mean(), rel=1e-4)
    else:
        assert found.reference == pytest.approx((answers.argmax(-1) == labels).mean())


def test_samples_that_do_not_fit_are_told_of_both_ways(leaky: Path):
    with pytest.raises(
        InputError, match=r"for each step, with the steps \(3 here\) on their secon"
    ):
        open_samples(open_model(leaky, SILENT), {"x": sequences(9, 3)}, np.ones((9, 2)), Plan())
    with pytest.raises(InputError, match=r"a sample is a sequence: arrays of shape \(samples, ste"):
        convert(leaky, output=leaky.with_name("out.onnx"), data={"x": sequences(6, 1)[:, 0]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": {"states": "stateN"}}, r"the model has no input 'states'. Name one of its in"),
        ({"states": {"state": "z"}}, r"the model has no output 'z'. Name one of its outputs: y"),
        ({"states": {"state": "y"}}, r"y: float32\[\?, 4\] does not fit into state: float32\[2, "),
        ({"sample_axes": {"stat": 1}}, r"no such input or output. Name one of these: x: .*stateN"),
        ({"sample_axes": {"state": 3}}, r"it has 3 axes, counted from 0. Give one of them."),
        (
            {"states": {"x": "y", "state": "stateN"}},
            r"every input is a state \(--state\): the data would be empty",
        ),
    ],
)
def test_what_cannot_be_a_state_or_an_axis_is_told(leaky: Path, options: dict, message: str):
    with pytest.raises(InputError, match=message):
        open_source(leaky, **options)


def test_a_model_that_takes_one_sample_a_call_without_an_axis(tmp_path: Path):
    path, x = tmp_path / "one.onnx", sequences(50, 1)[:, 0]
    onnx.save(parse("one (float[4] x) => (float[4] y) { y = MatMul(x, w) }", w=WEIGHTS), path)
    with pytest.raises(InputError, match="--sample-axis x=none"):
        convert(path, output=tmp_path / "out.onnx", data=x)
    source = open_source(path, sample_axes={"x": None})
    (answers,) = compared(source, x)
    np.testing.assert_allclose(answers, x[:1] @ WEIGHTS, rtol=1e-5)
    report = convert(source, output=tmp_path / "out.onnx", data=x, precision="mixed").report
    assert report.candidates[0].outputs[0].samples == 50


class Streaming(tf.Module):
    """Keeps a running mean, from ones on."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = tf.Variable(tf.ones((1, 4)))

    @tf.function(input_signature=[tf.TensorSpec((1, 4), name="x")])
    def step(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        self.mean.assign(0.5 * self.mean + 0.5 * x)
        return {"y": tf.identity(self.mean)}


@pytest.fixture
def streaming(tmp_path: Path) -> Path:
    module = Streaming()
    folder = tmp_path / "streaming"
    tf.saved_model.save(module, str(folder), signatures=module.step)
    return folder


def test_a_saved_model_begins_with_the_state_that_it_was_saved_with(streaming: Path):
    x = sequences(3, 5)
    expected, mean = [], np.ones((1, 4))
    for step in range(5):
        mean = 0.5 * mean + 0.5 * x[0, step : step + 1]
        expected.append(mean)
    (answers,) = compared(streaming, {"x": x})
    np.testing.assert_allclose(answers[0], np.concatenate(expected), rtol=1e-6)
    assert inspect_model(streaming, {"x": x}, SILENT).samples == 3


@pytest.mark.parametrize("format", quick(["onnx", "tflite"], "onnx"))
def test_streaming_models_are_judged_on_sequences(streaming: Path, tmp_path: Path, format: str):
    x = sequences(20, 5)
    options = {"fp16_edges": True} if format == "onnx" else {}  # it has no product
    file = convert(streaming, format, tmp_path / f"out.{format}", **options)
    report = validate(streaming, file, {"x": x}, split=True, explain=True, latency=True)
    (candidate,) = report.candidates
    (output,) = candidate.outputs
    assert (output.name, output.samples, output.totals.values) == ("y", 20, 20 * 5 * 4)
    assert 0 < output.rel_l2 < 1e-3
    assert [stage.name for stage in candidate.stages if stage.error is None]
    assert candidate.latency is not None
    assert "models without states" in candidate.explanation.notes[0]


def test_made_up_samples_are_sequences(streaming: Path, tmp_path: Path):
    report = validate(streaming, convert(streaming, output=tmp_path / "out.onnx"))
    assert report.candidates[0].outputs[0].totals.values == 64 * 16 * 4


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 1, 4), ()])
def test_states_of_another_first_size_run_whole_calls_in_tflite(shape: tuple, tmp_path: Path):
    class Deep(tf.Module):
        """Its state comes first among the inputs, by its name."""

        def __init__(self) -> None:
            super().__init__()
            self.deep = tf.Variable(tf.zeros(shape), name="a_state")

        @tf.function(input_signature=[tf.TensorSpec((1, 4), name="x")])
        def step(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
            driven = x if shape else tf.reduce_mean(x)
            self.deep.assign(0.9 * self.deep + 0.1 * driven)
            return {"y": x + tf.reduce_sum(self.deep)}

    module = Deep()
    tf.saved_model.save(module, str(tmp_path / "deep"), signatures=module.step)
    x = sequences(6, 5)
    file = convert(tmp_path / "deep", "tflite", tmp_path / "deep.tflite", data={"x": x})
    report = validate(tmp_path / "deep", file, {"x": x}, split=True, latency=True)
    (candidate,) = report.candidates
    assert candidate.error is None
    assert candidate.latency is not None
    (output,) = candidate.outputs
    assert (output.samples, output.totals.values) == (6, 6 * 5 * 4)
    assert 0 < output.rel_l2 < 1e-3


@pytest.mark.parametrize("samples", ["1", "3"])
@pytest.mark.parametrize(("text", "steps"), [(LEAKY, 5), (PLAIN, None)])
def test_files_of_a_fixed_batch_take_any_number_of_samples(
    text: str, steps: int | None, samples: str, tmp_path: Path
):
    x = sequences(7, steps or 1)
    data = {"x": x if steps else x[:, 0]}
    files = [written(text, number, tmp_path) for number in ("N", samples)]
    report = validate(files[0], files[1], data, latency=True)
    (candidate,) = report.candidates
    assert candidate.error is None
    (output,) = candidate.outputs
    assert (output.samples, output.rel_l2 < 1e-6) == (7, True)
    assert (report.reference.latency.batch, candidate.latency.batch) == (1, int(samples))


def test_files_of_other_sizes_are_told_with_both(tmp_path: Path):
    wide = tmp_path / "wide.onnx"
    onnx.save(parse(PLAIN.format(N="N").replace("4]", "5]"), w=np.eye(5, dtype=np.float32)), wide)
    report = validate(wide, written(PLAIN, "3", tmp_path), {"x": np.ones((6, 5), np.float32)})
    assert "x: float32[3, 4] received an array of shape [3, 5]" in report.candidates[0].error


def test_calls_with_samples_on_another_axis_are_timed(leaky: Path):
    file = convert(leaky, output=leaky.with_name("out.onnx"))
    report = validate(leaky, file, {"x": sequences(9, 2)}, latency=True)
    assert report.reference.latency.batch == report.candidates[0].latency.batch == 1
