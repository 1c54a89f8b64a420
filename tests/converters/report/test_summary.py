"""Numbers and names as people read them."""

import math
from dataclasses import replace

import pytest

from tfmp.converters.drift.metrics import OTHER, drift_of
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.totals import Totals
from tfmp.converters.onnx.emulation import runtimes
from tfmp.converters.report.explanation import Culprit, Explanation, LayerError
from tfmp.converters.report.model import render
from tfmp.converters.report.summary import (
    culprit_facts,
    data_notes,
    headline,
    meaning_text,
    number,
    percent,
    runtime_text,
    size_text,
)
from tfmp.converters.runners import HOLDS_FOR, RunnerInfo


def test_numbers_sizes_and_texts() -> None:
    values = (None, math.nan, math.inf, -math.inf, 0.0, 0.00012345, 1.5e-7)
    assert [*map(number, values)] == ["-", "NaN", "∞", "-∞", "0", "0.000123", "1.5e-07"]
    sizes = (None, 999, 1000, 2_345_678, 10**10)
    assert [*map(size_text, sizes)] == ["-", "999 B", "1.0 kB", "2.3 MB", "10.0 GB"]
    assert number(73.689, 1) == "73.7"
    assert (number(-0.004, 2), percent(-1e-6), percent(-0.02)) == ("0.00", "0.00%", "-2.00%")
    assert percent(0.98765) == "98.77%"
    assert percent(None) == "-"
    assert runtime_text(RunnerInfo("keras", "CPU", None)) == "keras on CPU, FP32"
    emulated = RunnerInfo("emulated", "CPU", "emulated", {HOLDS_FOR: runtimes()["ort-cuda"]})
    assert runtime_text(emulated) == "ort-cuda, FP16 emulated"
    assert runtime_text(RunnerInfo("none", "none", None)) == "-"


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (
            Task(Kind.CLASSIFICATION, 2, why="its labels are class ids"),
            "output 'y' is read as classification along axis 2, because its labels are class ids",
        ),
        (
            Task(Kind.DETECTION, columns=(0, 1, 2, 3)),
            "output 'y' is read as detection with boxes in the columns 0, 1, 2, 3, as declared",
        ),
        (OTHER, "output 'y' is judged by distances, because its meaning is unknown"),
        (Task(Kind.OTHER), "output 'y' is judged by distances, as declared"),
    ],
)
def test_the_meaning_of_an_output_is_a_sentence(task: Task, text: str) -> None:
    assert meaning_text(replace(drift_of("y", Totals()), task=task)) == text


def test_headline_and_notes(report) -> None:
    assert headline(report) == "1 of 4 candidates passed against digits, on 450 samples."
    assert data_notes(report) == ["input 'image' holds 1 values that are NaN or infinite"]
    half = replace(report.reference, runner=RunnerInfo("onnxruntime", "CPU", "weights-only"))
    told, _ = data_notes(replace(report, reference=half))
    assert told.endswith("name that original as the reference")


def explained(local: float, jump: float, cumulative: float, **more) -> Explanation:
    return Explanation(
        (),
        layers=(LayerError("relu", ("Relu",), local, cumulative, jump, **more),),
        culprit=Culprit("relu", "largest jump of the error", "relu/Relu", "Relu", local),
    )


def culprit(*errors: float, **more) -> str:
    ((name, text),) = culprit_facts(explained(*errors, **more))
    assert name == "where"
    return text


def test_a_jump_is_told_from_where_to_where() -> None:
    jump = "layer 'relu' adds most drift: the error grows from 0.001 to 0.004"
    assert culprit(0.002, 0.003, 0.004) == jump
    assert culprit(0.0, math.inf, math.inf).endswith("jump of the error")
    assert culprit(1.0, 1.0, 1.0, local_nonfinite=3).endswith("largest jump of the error")


@pytest.mark.parametrize("suffix", [".md", ".html", ".json"])
def test_notes_that_are_nearly_the_same_are_told_once_for_people(report, suffix: str) -> None:
    notes = tuple(f"kept in FP32: Exp in layer {i}" for i in range(16))
    noted = replace(report, candidates=(replace(report.candidates[0], notes=notes),))
    text = render(noted, suffix)
    once = "and 15 notes more that differ in names or numbers only"
    assert (text.count("kept in FP32"), once in text) == (
        (16, False) if suffix == ".json" else (1, True)
    )
