"""Outputs of every kind, name and order, from files of both formats to the report."""

import json
import tracemalloc
from pathlib import Path

import keras
import numpy as np
import onnx
import onnx_graphs
import pytest
import tensorflow as tf
from click.testing import CliRunner

from tfmp.converters import convert, validate
from tfmp.converters.commands.cli import main
from tfmp.converters.onnx.format import OnnxFormat
from tfmp.converters.report.contents import to_markdown
from tfmp.converters.report.model import DriftReport
from tfmp.converters.runners.reference import SourceRunner
from tfmp.converters.shared.errors import InputError

SAMPLES = np.random.default_rng(0).standard_normal((400, 4), dtype=np.float32)
ANIMALS = ["cat", "dog", "emu", "fox"]


def onnx_file(path: Path, graph: str, **initializers: np.ndarray) -> Path:
    onnx.save(onnx_graphs.parse(graph, **initializers), path)
    return path


def graph_of(node: str) -> str:
    return f"agraph (float[n,4] x) => (float[n,4] y) {{ {node} }}"


def namer(path: Path, words: list[str]) -> Path:
    """A file that gives the word for the largest of four numbers."""
    graph = """namer (float[n,4] x) => (string[n] animal) {
        best = ArgMax <axis = 1, keepdims = 0> (x)
        animal = Gather (words, best)
    }"""
    return onnx_file(path, graph, words=np.array(words, object))


def test_the_compiled_loss_says_what_an_output_means(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="y")])
    model.compile(loss="binary_crossentropy")
    report = convert(model, output=tmp_path / "m.onnx", data=SAMPLES).report
    assert "binary_crossentropy" in report.candidates[0].outputs[0].task.why


def test_tasks_and_metrics_that_do_not_fit_are_told(tmp_path: Path) -> None:
    x = keras.Input((4,), name="x")
    model = keras.Model(x, keras.layers.Dense(3, name="y")(x))
    with pytest.raises(InputError, match="'z', which the reference does not have; its outputs: y"):
        convert(model, output=tmp_path / "m.onnx", data=SAMPLES, tasks={"z": "ids"})
    assert not (tmp_path / "m.onnx").exists()
    path = convert(model, output=tmp_path / "m.onnx").path
    for data in (SAMPLES, None):
        with pytest.raises(InputError, match="compares predictions with labels, and the samples"):
            validate(model, path, data, metric="math:dist")


class TestTexts:
    @staticmethod
    def reference() -> tf.types.experimental.PolymorphicFunction:
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def name(x):
            return {"animal": tf.gather(tf.constant(ANIMALS), tf.argmax(x, axis=1))}

        return name

    def test_those_of_tensorflow_and_of_files_are_equal(self, tmp_path) -> None:
        report = validate(self.reference(), namer(tmp_path / "same.onnx", ANIMALS), SAMPLES)
        (output,) = report.candidates[0].outputs
        assert report.verdict == "PASS"
        assert (output.decision, output.flips, output.samples) == ("equality", 0, 400)
        assert output.rel_l2 is None
        artifact = convert(self.reference(), output=tmp_path / "namer.onnx", data=SAMPLES)
        assert artifact.report is not None
        assert artifact.report.verdict == "PASS"

    def test_inputs_may_be_texts(self, tmp_path) -> None:
        graph = "same (string[n] word) => (string[n] out) { out = Identity (word) }"
        file = onnx_file(tmp_path / "same.onnx", graph)
        words = np.array(ANIMALS * 100)
        for data in (words, words.astype(bytes), words.astype(object), None):
            report = validate(file, onnx_file(tmp_path / "copy.onnx", graph), data)
            assert report.candidates[0].outputs[0].flips == 0


class TestBudgetsOfOutputs:
    def test_from_the_command_line_to_every_rendering(self, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        keras.utils.set_random_seed(5)
        x = keras.Input((4,), name="x")
        scores = keras.layers.Dense(3, name="scores")(x)
        boxes = [keras.layers.Dense(size, name=f"box{size}")(x) for size in (2, 5)]
        model = keras.Model(x, {"scores": scores, "boxes": boxes}, name="nested")
        model.save("nested.keras")
        convert(model, output="n.onnx")
        np.save("x.npy", SAMPLES)
        command = ["validate", "nested.keras", "n.onnx", "--data", "x.npy"]
        limits = ["scores.rel_l2=1e-9", "boxes_1.rel_l2=none", "scores.flip_rate=0.5"]
        for limit in limits:
            command += ["--budget", limit]
        command += ["--task", "scores=multilabel"]
        result = CliRunner().invoke(main, [*command, "--json", "--report", "drift.html"])
        assert result.exit_code == 1, result.output
        report = DriftReport.from_dict(json.loads(result.stdout))
        assert report.budget.overrides == {
            "scores": {"rel_l2": 1e-9, "flip_rate": 0.5},
            "boxes_1": {"rel_l2": None},
        }
        reason, remedy = report.candidates[0].reasons
        assert remedy.startswith("Convert with --precision mixed")
        assert remedy.endswith("Set the CUDA provider's option use_tf32 to 0")
        assert reason.startswith("output 'scores': rel_l2")
        assert "over the budget of 1e-09" in reason
        limited = {(check.name, check.output): check.limit for check in report.candidates[0].checks}
        assert limited["flip_rate", "scores"] == 0.5
        assert limited["rel_l2", "boxes"] == 0.01
        assert ("rel_l2", "boxes_1") not in limited
        page = (tmp_path / "drift.html").read_text()
        assert "<dt>rel_l2 of scores</dt><dd>1e-09</dd>" in page
        assert "<dt>rel_l2 of boxes_1</dt><dd>none</dd>" in page
        told = to_markdown(report)
        assert "rel_l2 of scores 1e-09, flip_rate of scores 0.5, rel_l2 of boxes_1 none" in told


class TestFilesThatCannotBeCompared:
    """They cost their candidate its verdict, not the run; a reference is refused."""

    @pytest.mark.parametrize(
        ("graph", "message"),
        [
            (
                "maps (float[n,4] x) => (seq(float[n,4]) y) { y = SequenceConstruct (x) }",
                "'y' is a seq(tensor(float)), not a tensor, so it cannot be compared value by "
                "value. Export it with tensors only.",
            ),
            (
                "odd (float[n,4] x) => (float[n,4] y) { y = Gather <axis = 1> (x, far) }",
                "ONNX Runtime: ",
            ),
        ],
    )
    def test_candidates(self, tmp_path, graph: str, message: str) -> None:
        good = onnx_file(tmp_path / "good.onnx", graph_of("y = Identity (x)"))
        far = {"far": np.full(4, 9)} if "far" in graph else {}
        bad = onnx_file(tmp_path / "bad.onnx", graph, **far)
        report = validate(good, [bad, good], SAMPLES)
        assert [candidate.verdict for candidate in report.candidates] == ["FAIL", "PASS"]
        assert report.candidates[0].reasons[0].startswith(message)

    def test_a_reference_without_shapes(self, tmp_path) -> None:
        good = onnx_file(tmp_path / "good.onnx", graph_of("y = Identity (x)"))
        model = onnx.load(good)
        model.graph.output[0].type.tensor_type.ClearField("shape")
        onnx.save(model, tmp_path / "open.onnx")
        assert validate(tmp_path / "open.onnx", good, SAMPLES).candidates[0].verdict == "PASS"
        model.graph.input[0].type.tensor_type.ClearField("shape")
        onnx.save(model, tmp_path / "open.onnx")
        with pytest.raises(InputError, match=r"input 'x' has no .* with --input-shape x=SIZES \("):
            validate(tmp_path / "open.onnx", good, SAMPLES)
        given = {"x": [None, 4]}
        artifact = convert(
            tmp_path / "open.onnx", output=tmp_path / "out.onnx", data=SAMPLES, input_shapes=given
        )
        assert artifact.report.verdict == "PASS"


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> tuple[keras.Model, Path, np.ndarray]:
    folder = tmp_path_factory.mktemp("words")
    keras.utils.set_random_seed(7)
    ids = keras.Input((5,), dtype="int32", name="ids")
    y = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(10, 4)(ids))
    model = keras.Model(ids, keras.layers.Dense(3, name="scores")(y), name="words")
    data = np.zeros((100, 5), np.int32)
    data[70, 2] = 99
    return model, convert(model, output=folder / "words.onnx").path, data


class TestValuesThatAModelCannotTake:
    """Ids beyond a vocabulary, in the 70th sample: only running the model tells."""

    TENSORFLOW = (
        r"model 'words' cannot run on these samples: indices\[\d+,2\] = 99 is not in \[0, 10\)"
    )
    ONNX_RUNTIME = r"model 'words' cannot run on these samples: indices element out of data bounds"
    WHAT_NEXT = (
        r"\. Check their sizes and values: ids, for example, have to lie within the vocabulary\.$"
    )

    def test_of_a_reference(self, words) -> None:
        model, file, data = words
        with pytest.raises(InputError, match=self.TENSORFLOW + self.WHAT_NEXT):
            validate(model, file, data)
        with pytest.raises(InputError, match=self.ONNX_RUNTIME):
            validate(file, file, data)
        with pytest.raises(InputError, match=self.TENSORFLOW):
            validate(model, file, data[60:], np.zeros(40, int))

    @pytest.mark.parametrize(("to", "options"), [("onnx", {"precision": "mixed"}), ("tflite", {})])
    def test_of_a_conversion_that_looks_at_samples(self, words, tmp_path, to, options) -> None:
        model, _, data = words
        with pytest.raises(InputError, match=f"{self.TENSORFLOW}|{self.ONNX_RUNTIME}"):
            convert(model, to, tmp_path / f"w.{to}", data=data, **options)
        assert not list(tmp_path.iterdir())

    def test_a_defect_is_no_matter_of_samples(self, words, monkeypatch) -> None:
        model, file, data = words
        monkeypatch.setattr(SourceRunner, "run", lambda *_: {}["lost"])
        with pytest.raises(KeyError):
            validate(model, file, data)


class Batches:
    """Samples that are made as they are read; counts how often that begins."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.reads = 0

    def __iter__(self):
        self.reads += 1
        generator = np.random.default_rng(3)
        for _ in range(self.batches):
            yield generator.standard_normal((32, 2048), dtype=np.float32), np.zeros(32, np.int64)


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> tuple[Path, Path]:
    """A saved model of many inputs, and its ONNX file."""
    folder = tmp_path_factory.mktemp("wide")
    keras.utils.set_random_seed(6)
    x = keras.Input((2048,), name="x")
    keras.Model(x, keras.layers.Dense(2, name="y")(x), name="wide").save(folder / "wide.keras")
    return folder / "wide.keras", convert(folder / "wide.keras").path


class TestResources:
    @pytest.mark.slow
    def test_memory_does_not_grow_with_samples(self, wide) -> None:
        """Of 60 batches of 256 kB, which are 16 MB, no more is held than of ten."""
        peaks = []
        for batches in (10, 60):
            tracemalloc.start()
            try:
                report = validate(*wide, Batches(batches), explain=True)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            assert report.data.samples == 32 * batches
        assert peaks[1] - peaks[0] < 4e6

    def test_nothing_is_loaded_twice_and_the_reference_runs_once_for_all(
        self, wide, tmp_path, monkeypatch
    ) -> None:
        loads, runs, files = [], [], []
        load, run, opened = keras.models.load_model, SourceRunner.run, OnnxFormat.open_runner
        monkeypatch.setattr(
            keras.models, "load_model", lambda *a, **b: loads.append(a) or load(*a, **b)
        )
        monkeypatch.setattr(SourceRunner, "run", lambda s, x: runs.append(s) or run(s, x))
        monkeypatch.setattr(OnnxFormat, "open_runner", lambda *a: files.append(a[1]) or opened(*a))
        reference, candidate = wide
        copy = tmp_path / "copy.onnx"
        copy.write_bytes(candidate.read_bytes())
        data = (batch for batch in Batches(7))  # a second reading would be an error
        report = validate(reference, [candidate, copy], data)
        assert len(loads) == 1
        assert len(runs) == 7
        assert files == [candidate, copy]
        assert [c.outputs[0].samples for c in report.candidates] == [224, 224]

    def test_of_data_that_can_be_read_again_only_the_first_batch_is(self, wide) -> None:
        """It is looked at before the candidates are loaded, so that what does not fit is told."""
        data = Batches(7)
        assert validate(*wide, data).data.samples == 224
        assert data.reads == 2
