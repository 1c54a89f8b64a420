"""Bars: how long they are, and what they say."""

import math

import numpy as np
import pytest

from tfmp.converters.drift.metrics import OutputAccumulator
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.report.figures import (
    BUDGET_LINE,
    Bar,
    budget_bars,
    margin_bars,
    size_bars,
)
from tfmp.converters.report.model import CandidateReport
from tfmp.converters.runners import RunnerInfo


def candidate(*checks: Check) -> CandidateReport:
    runner = RunnerInfo("r", "CPU", None)
    return CandidateReport("c", "onnx", runner, verdict=Verdict.PASS, reasons=(), checks=checks)


def check(measured, limit, lower=None, upper=None, verdict=Verdict.PASS, name="rel_l2") -> Check:
    return Check(name, "y", measured, lower, upper, limit, verdict, "")


def only(*checks: Check) -> Bar:
    (bar,), more = budget_bars(candidate(*checks))
    assert more == 0
    return bar


class TestBudget:
    def test_a_value_at_its_limit_ends_at_the_line(self) -> None:
        assert only(check(0.01, 0.01)).length == pytest.approx(BUDGET_LINE)
        assert only(check(0.005, 0.01)).length == pytest.approx(BUDGET_LINE / 2)
        assert only(check(0.0, 0.0)).length == 0.0
        assert only(check(1e-9, 0.0, verdict=Verdict.FAIL)).length == 1.0
        bar = only(check(-0.02, 0.01, -0.03, -0.01, name="accuracy_drop"))
        assert (bar.length, bar.bound, bar.cut) == (0.0, 0.0, False)

    def test_what_goes_beyond_the_track_is_cut(self) -> None:
        bar = only(check(5.0, 0.01, verdict=Verdict.FAIL))
        assert (bar.length, bar.cut, bar.text) == (1.0, True, "5 of 0.01")
        undecided = only(check(0.005, 0.01, 0.0, 0.05, Verdict.INCONCLUSIVE, "flip_rate"))
        assert (undecided.bound, undecided.cut) == (1.0, True)
        assert undecided.length < BUDGET_LINE
        bar = only(check(0.0, 0.01, 0.0, 0.0066, name="flip_rate"))
        assert bar.length == 0.0
        assert bar.bound == pytest.approx(0.66 * BUDGET_LINE)
        assert bar.text == "0.00% (≤ 0.66%) of 1.00%"
        assert not bar.cut

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_no_number_fills_the_track(self, value: float) -> None:
        bar = only(check(value, 0.01, verdict=Verdict.FAIL))
        assert (bar.length, bar.cut) == (1.0, True)

    def test_what_no_budget_allows_fills_the_track(self) -> None:
        bar = only(check(3.0, None, verdict=Verdict.FAIL, name="nonfinite"))
        assert (bar.label, bar.text, bar.length) == ("Non-finite values", "3 values", 1.0)
        broken = check(3.0, None, verdict=Verdict.FAIL, name="nonfinite")
        assert only(broken, check(0.0, 0.1, name="sample_rel_l2")).text == "3 values"
        assert budget_bars(candidate(check(3.0, 59.0, name="min_samples"))) == ([], 0)

    @pytest.mark.parametrize("name", ["meaning", "top_k", "between_samples"])
    def test_a_share_without_a_limit_is_no_number_of_values(self, name: str) -> None:
        assert only(check(0.4375, None, verdict=Verdict.INCONCLUSIVE, name=name)).text == "0.438"

    def test_names_are_words(self) -> None:
        names = ["between_samples", "mean_iou_drop", "macro_f1_ratio", "found_share_drop"]
        labels = [only(check(0, 1, name=name)).label for name in names]
        assert labels == ["Between samples", "Mean IoU drop", "Macro F1 ratio", "Found share drop"]

    def test_worst_first_and_no_more_than_a_glance_takes(self) -> None:
        checks = [check(index / 1000, 0.1, name=f"own_{index}") for index in range(20)]
        bars, more = budget_bars(candidate(*checks))
        assert (len(bars), more) == (12, 8)
        assert bars[0].text == "0.019 of 0.1"
        checks = [check(share, 0.1, name="between_samples") for share in (0.01, 0.03, 0.02)]
        bars, more = budget_bars(candidate(check(0.02, 0.1), *checks))
        assert ([bar.text for bar in bars], more) == (["0.03 of 0.1", "0.02 of 0.1"], 0)


def test_margins_with_their_share_of_flips() -> None:
    accumulator = OutputAccumulator("y", task=Task(Kind.CLASSIFICATION))
    accumulator.update(
        np.array([[0, 5.0], [0, 5.0], [0, 0.5]]), np.array([[9, 5.0], [0, 5.0], [0, 0.5]])
    )
    assert [(bar.label, bar.text, bar.length) for bar in margin_bars(accumulator.result())] == [
        ("0.1 to 1", "0 of 1 flip", 0.0),
        ("1 to 10", "1 of 2 flip", 0.5),
    ]


def test_sizes_by_the_largest(report) -> None:
    bars = size_bars(report)
    assert [(bar.label, bar.text) for bar in bars[:2]] == [
        ("digits", "180.0 kB"),
        ("good.onnx", "40.0 kB"),
    ]
    assert bars[0].length == 1.0
    assert bars[1].length == pytest.approx(40 / 180)
    assert len(bars) == 4  # the one that crashed has no size
