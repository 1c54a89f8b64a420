"""The report as data: its verdict, judging again, and where it can be saved."""

from pathlib import Path

import pytest

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.report.model import SUFFIXES, render
from tfmp.converters.shared.errors import InputError


def test_candidates_are_judged_each_and_the_report_by_the_worst(report) -> None:
    verdicts = [candidate.verdict for candidate in report.candidates]
    assert verdicts == ["PASS", "FAIL", "INCONCLUSIVE", "FAIL"]
    assert report.verdict is Verdict.FAIL
    assert report.verdict == "FAIL"
    candidate = report.candidates[0]
    assert candidate.runner.fp16 == "emulated"
    assert candidate.outputs[0].rel_l2 < 1e-3
    assert candidate.outputs[0].flips == 0
    assert candidate.labels[0].lost == 0


def test_another_budget_gives_another_verdict_on_the_same_evidence(report) -> None:
    strict = report.judged_by(DriftBudget(max_abs=1e-9))
    assert [candidate.verdict for candidate in strict.candidates] == ["FAIL"] * 4
    assert strict.candidates[0].outputs == report.candidates[0].outputs
    assert strict.budget == DriftBudget(max_abs=1e-9)
    loose = report.judged_by(DriftBudget(rel_l2=0.05, flip_rate=0.1, accuracy_drop=0.1))
    verdicts = [candidate.verdict for candidate in loose.candidates]
    # The third ran in FP32 arithmetic: no budget makes that prove anything about FP16.
    assert verdicts == ["PASS", "FAIL", "INCONCLUSIVE", "FAIL"]
    assert repr(loose.judged_by(report.budget)) == repr(report)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".HTML"])
def test_save_writes_the_form_of_the_suffix(report, tmp_path: Path, suffix: str) -> None:
    path = report.save(tmp_path / f"drift{suffix}")
    assert path.read_text(encoding="utf-8") == render(report, suffix)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_paths_that_are_refused(report, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"report expects a path, .*; received 3 of type int"):
        report.save(3)
    with pytest.raises(InputError) as caught:
        report.save(tmp_path / "drift.pdf")
    assert str(caught.value) == (
        f"report {str(tmp_path / 'drift.pdf')!r} has suffix '.pdf'; expected one of .json, .html, "
        ".md, .xml. Change the file's name."
    )
    assert not list(tmp_path.iterdir())
