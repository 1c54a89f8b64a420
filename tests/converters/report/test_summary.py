"""Numbers and names as people read them; cause, place and remedy of a verdict."""

import math
import shlex
from dataclasses import replace

import pytest

from tfmp.converters.drift.metrics import OTHER, drift_of
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.totals import Totals
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.onnx.emulation import runtimes
from tfmp.converters.report.explanation import Culprit, Explanation, LayerError
from tfmp.converters.report.model import render
from tfmp.converters.report.summary import (
    cause,
    culprit_facts,
    data_notes,
    decided_by,
    findings,
    meaning_text,
    number,
    percent,
    runtime_text,
    size_text,
    value_of,
)
from tfmp.converters.runners import HOLDS_FOR, RunnerInfo
from tfmp.shared.reporting import Command


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


def test_a_reference_with_fp16_weights_is_noted(report) -> None:
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


def check(name="rel_l2", measured=0.005, limit=0.01, lower=None, upper=None, verdict="PASS"):
    return Check(name, "y", measured, lower, upper, limit, Verdict(verdict), "")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (check(), "0.005 (limit 0.01)"),
        (check("flip_rate", 0.0, 0.01, 0.0, 0.0066), "≤ 0.66% (limit 1%)"),
        (check("flip_rate", 0.9, 0.01, 0.88, 0.92, "FAIL"), "≥ 88.00% (limit 1%)"),
        (check("f1_drop", 0.0, 0.01, 0.0, 0.09), "0.00%, not proven to be over (limit 1%)"),
        (check("nonfinite", 7970.0, None, verdict="FAIL"), "7,970"),
        (check("meaning", 0.4375, None, verdict="INCONCLUSIVE"), "0.438"),
        (check("collapsed", 1.0, None, verdict="FAIL"), ""),
    ],
)
def test_a_number_stands_beside_its_limit(found: Check, text: str) -> None:
    assert value_of(found) == text


def test_a_pass_is_decided_by_the_check_that_is_nearest_to_its_limit(report) -> None:
    near = check("mean_iou_drop", 0.0, 0.01, 0.0, 0.009)
    good = replace(report.candidates[0], checks=(check(), near, check("min_samples", 99.0, 59.0)))
    assert decided_by(good) == "Mean IoU drop ≤ 0.90% (limit 1%)"
    assert findings(report, good) == []
    assert decided_by(replace(good, checks=())) == ""
    undefined = check("own", math.nan, 0.1, verdict="PASS")
    assert cause(replace(good, checks=(near, undefined))) is undefined


def test_the_cause_is_told_once_with_its_place_and_remedy(report) -> None:
    _, broken, opened, crashed = (dict(findings(report, one)) for one in report.candidates)
    assert broken["what"].startswith("1 of 4,500 values are NaN or infinite where the reference")
    assert broken["where"] == "layer 'probs': first value that is not finite"
    assert broken["see"] == Command("python out/probs/reproduce.py")
    assert list(opened) == ["what", "do"]
    assert crashed == {"what": "ONNX Runtime cannot load the model: bad node"}


def test_a_remedy_is_a_command_that_can_be_pasted(report) -> None:
    remedy = {"remedy": "Convert with mixed", "remedy_flags": "--precision mixed"}
    broken = replace(report.candidates[1], path="out dir/broken.onnx", **remedy)
    filed = replace(report, data=replace(report.data, source="held out.npz"))
    command = dict(findings(filed, broken))["do"]
    assert isinstance(command, Command)
    assert list(dict(findings(filed, broken))) == ["what", "where", "do", "see"]
    assert shlex.split(command) == [
        *("tfmp-convert", "onnx", "digits.keras", "--precision", "mixed"),
        *("--data", "held out.npz", "-o", "out dir/broken.onnx", "--force"),
    ]
    assert dict(findings(report, broken))["do"] == "Convert with mixed"  # arrays have no name


def test_doubts_on_the_whole_run_come_before_those_that_samples_settle(report) -> None:
    rate = check("flip_rate", 0.0, 0.01, 0.0, 0.09, "INCONCLUSIVE")
    few = replace(check("min_samples", 30.0, 59.0, verdict="INCONCLUSIVE"), output="")
    made_up = replace(check("synthetic", None, None, verdict="INCONCLUSIVE"), output="")
    opened = replace(report.candidates[2], checks=(rate, few, made_up))
    assert cause(opened) is made_up
    assert cause(replace(opened, checks=(rate, few))) is rate


def test_a_rate_above_zero_needs_a_remedy_before_samples(report) -> None:
    """More samples settle a rate of zero, and prove that another one is over its limit."""
    rate = replace(check("flip_rate", 0.05, 0.01, 0.0, 0.2, "INCONCLUSIVE"), text="bad. Give more")
    for remedy, measured, fp16, told in (
        ("Convert", 0.005, "emulated", True),
        ("Convert", 0.0, "emulated", False),
        ("Convert", 0.005, None, False),
        ("", 0.005, "emulated", False),
    ):
        one = replace(
            report.candidates[2], remedy=remedy, checks=(replace(rate, measured=measured),)
        )
        one = replace(one, runner=replace(one.runner, fp16=fp16))
        found = dict(findings(report, one))
        steps = ("Convert", "Give more") if told else ("Give more", None)
        assert (found["do"], found.get("or")) == steps


def test_a_decision_names_the_declaration_that_would_change_it(report) -> None:
    failed = replace(
        report.candidates[1],
        verdict=Verdict.FAIL,
        explanation=None,
        checks=(
            replace(check("flip_rate", 0.9, 0.01, 0.8, 0.9, "FAIL"), output="probs", text="bad"),
        ),
    )
    found = dict(findings(replace(report, candidates=(failed,)), failed))
    assert found["meaning"].endswith("declare another with --task probs=KIND")
    assert found["where"] == "--explain finds the layer"
    told = replace(failed, overflows=("overflows in FP16: layer d reaches 1e5",))
    siblings = replace(report, candidates=(failed, told))
    assert dict(findings(siblings, failed))["where"] == "overflows in FP16: layer d reaches 1e5"
    same = replace(told, checks=(replace(failed.checks[0], text=told.overflows[0]),))
    assert "where" not in dict(findings(siblings, same)), "it is the cause, told once"
