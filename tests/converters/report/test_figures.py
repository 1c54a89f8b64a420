"""Bars: how long they are, and what they say."""

import math
from dataclasses import replace

import pytest

from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.report.explanation import Explanation, LayerError
from tfmp.converters.report.figures import BUDGET_LINE, budget_bars, layer_picture
from tfmp.converters.report.model import CandidateReport
from tfmp.converters.runners import RunnerInfo
from tfmp.shared.html_page import Bar


def candidate(*checks: Check) -> CandidateReport:
    verdict = checks[0].verdict
    runner = RunnerInfo("r", "CPU", None)
    return CandidateReport("c", "onnx", runner, verdict=verdict, reasons=(), checks=checks)


def check(measured, limit, lower=None, upper=None, verdict=Verdict.PASS, name="rel_l2") -> Check:
    return Check(name, "y", measured, lower, upper, limit, verdict, "")


def only(*checks: Check) -> Bar:
    (bar,) = budget_bars([candidate(*checks)])
    return bar


def test_a_value_at_its_limit_ends_at_the_line() -> None:
    assert only(check(0.01, 0.01)).length == pytest.approx(BUDGET_LINE)
    assert only(check(0.0, 0.0)).length == 0.0
    assert only(check(1e-9, 0.0, verdict=Verdict.FAIL)).length == 1.0
    bar = only(check(-0.02, 0.01, -0.03, -0.01, name="accuracy_drop"))
    assert (bar.length, bar.bound, bar.cut) == (0.0, 0.0, False)


@pytest.mark.parametrize("value", [5.0, math.nan, math.inf])
def test_what_goes_beyond_the_track_is_cut(value: float) -> None:
    bar = only(check(value, 0.01, verdict=Verdict.FAIL))
    assert (bar.length, bar.cut) == (1.0, True)
    undecided = only(check(0.005, 0.01, 0.0, 0.05, Verdict.INCONCLUSIVE, "flip_rate"))
    assert (undecided.bound, undecided.cut) == (1.0, True)
    assert undecided.length < BUDGET_LINE


def test_the_deciding_check_comes_first_and_the_worst_of_those_under_one_limit() -> None:
    checks = [check(index / 1000, 0.1, name=f"own_{index}") for index in range(20)]
    bars = budget_bars([candidate(*checks)])
    assert (len(bars), bars[0].text) == (6, "0.019 (limit 0.1)")
    checks = [check(share, 0.1, name="between_samples") for share in (0.01, 0.03, 0.02)]
    bars = budget_bars([candidate(check(0.02, 0.1), *checks)])
    assert [bar.text for bar in bars] == ["0.03 (limit 0.1)", "0.02 (limit 0.1)"]
    bars = budget_bars([candidate(check(0.1, 0.01, verdict=Verdict.FAIL), check(0.1, 0.001))])
    assert bars[0].verdict == "FAIL"
    bar = only(check(3.0, None, verdict=Verdict.FAIL, name="nonfinite"), check(0.1, 0.01))
    assert (bar.label, bar.text, bar.length, bar.cut) == ("Non-finite values", "3", 1.0, True)


def layers(count: int, **first: float) -> Explanation:
    found = [LayerError(f"l{i}", ("Add",), 1e-4, 1e-3 + i * 1e-6, 1e-6) for i in range(count)]
    return Explanation((), layers=(replace(found[0], **first), *found[1:]))


def test_layers_that_change_most_are_drawn_in_the_order_of_execution() -> None:
    picture = layer_picture(layers(50, jump=1.0), failed=False)
    assert len(picture.bars) == 40
    assert picture.bars[0].label == "l0"
    assert picture.caption.endswith("in FP16); the JSON report has 10 more layers")
    picture = layer_picture(layers(3, cumulative=math.inf, nonfinite=2), failed=True)
    assert 0 < picture.bars[1].length < picture.bars[2].length < 0.6, "a lost value is past them"
    assert (picture.bars[0].length, picture.bars[0].text) == (
        1.0,
        "2 not finite, alone 0.0001",
    )
