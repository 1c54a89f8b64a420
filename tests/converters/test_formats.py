"""A format is a folder and a line: a toy format converts, runs and is judged like the others."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras_models
import numpy as np
import pytest

from tfmp.converters import convert, formats, validate
from tfmp.converters.formats import Format, Target, all_formats, format_of
from tfmp.converters.report import FileNotes
from tfmp.converters.runners import RunnerInfo, SourceRunner, TimedCalls, time_runner
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.options import option

X = np.random.default_rng(0).standard_normal((400, 6), dtype=np.float32)


@dataclass(frozen=True)
class ToyOptions:
    error: str = option("none", "How wrong the file is.", choices=("none", "large"))


class ToyFormat(Format):
    """Files that hold nothing but how wrong they are: the runner asks the model itself."""

    name = "toy"
    title = "Toy"
    options = ToyOptions

    def write(self, source, target: Target, samples, helper, progress) -> FileNotes:
        target.path.write_text(target.options.error)
        self.source = source
        return FileNotes((f"error: {target.options.error}",))

    def write_fp32(self, source, path: Path) -> None:
        path.write_text("none")

    def open_runner(self, path, *where, **how) -> SourceRunner:
        return Toy(self.source, path.read_text())

    def time_calls(self, path, call, rows, info, signature) -> TimedCalls:
        return time_runner(Toy(self.source, path.read_text()), call, rows)

    def open_seams(self, path, source, profile, stack):
        raise AssertionError("a file that is right is not looked into")


class Toy(SourceRunner):
    def __init__(self, source, error: str) -> None:
        super().__init__(source, RunnerInfo("toy", "CPU", "native"))
        self._factor = 1.001 if error == "none" else -1.0

    def run(self, batch):
        return {name: array * self._factor for name, array in super().run(batch).items()}


@pytest.fixture
def toy(monkeypatch) -> Iterator[None]:
    monkeypatch.setitem(formats._KNOWN, "toy", f"{__name__}:ToyFormat")
    all_formats.cache_clear()
    yield
    all_formats.cache_clear()


def test_it_is_written_run_and_judged_like_any_other(toy, tmp_path):
    model = keras_models.dense()
    good = convert(model, "toy", tmp_path / "good.toy", data=X, split=True, latency=True)
    assert good.notes[-1] == "error: none"
    assert good.report is not None
    (candidate,) = good.report.candidates
    assert (candidate.format, candidate.runner.name, candidate.verdict) == ("toy", "toy", "PASS")
    assert [stage.name for stage in candidate.stages] == ["export", "weights", "arithmetic"]
    assert candidate.latency is not None
    bad = convert(model, "toy", tmp_path / "bad.toy", error="large", data=X)
    assert bad.report is not None
    assert bad.report.verdict == "FAIL"
    onnx = convert(model, "onnx", tmp_path / "m.onnx")
    both = validate(model, [good, onnx], X)
    assert [candidate.format for candidate in both.candidates] == ["toy", "onnx"]


def test_its_options_are_checked_and_its_precision_is_its_own(toy, tmp_path):
    model = keras_models.dense()
    with pytest.raises(InputError, match="error: expected one of none, large, received 'small'"):
        convert(model, "toy", tmp_path / "m.toy", error="small")
    with pytest.raises(InputError, match="opset is no option of a conversion to toy"):
        convert(model, "toy", tmp_path / "m.toy", opset=17)
    with pytest.raises(InputError, match="is for ONNX files: Toy runtimes compute a whole file"):
        convert(model, "toy", tmp_path / "m.toy", precision="mixed", data=X)
    with pytest.raises(InputError, match="Toy files have no runner on a GPU"):
        convert(model, "toy", tmp_path / "m.toy", data=X, device="gpu")
    assert not list(tmp_path.iterdir())


def test_names_and_suffixes():
    assert format_of(Path("model.ONNX")).name == "onnx"
    with pytest.raises(InputError, match=r"expected a candidate ending in \.onnx or \.tflite"):
        format_of(Path("model.pb"))
