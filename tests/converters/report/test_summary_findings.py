"""Cause, place and remedy of a verdict: at most four lines for a candidate."""

import math
import shlex
from dataclasses import replace

import pytest

from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.report.contents import conclusion
from tfmp.converters.report.summary import cause, decided_by, findings, value_of
from tfmp.shared.reporting import Command


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


def test_candidates_with_one_finding_stand_together(report) -> None:
    opened = report.candidates[2]
    both = replace(report, candidates=(opened, replace(opened, name="other.tflite")))
    assert [part.title for part in conclusion(both).parts] == ["open.tflite, other.tflite"]
    broken = report.candidates[1]
    folder = replace(broken.explanation.culprit, folder="other")
    other = replace(broken, explanation=replace(broken.explanation, culprit=folder))
    both = replace(report, candidates=(broken, replace(other, name="other.onnx")))
    (part,) = conclusion(both, short=True).parts  # each command names its own file
    assert [name for name, _ in part.facts] == ["what", "where", "see", "see"]


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
