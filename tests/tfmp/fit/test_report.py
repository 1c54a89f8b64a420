"""The report of a training as a page, as data and as Markdown, from numbers that are known."""

import json
import math
import re
from dataclasses import replace

import pytest
from notebook_cells import headline_and_page

from tfmp import MixedPrecision
from tfmp.fit import figures
from tfmp.fit.report import Event, Reading, TrainingReport
from tfmp.loss_scaling.gradient_health import GradientHealth, VariableHealth
from tfmp.precision import LayerPrecision
from tfmp.shared.findings import Finding

ROWS = (
    LayerPrecision("/", "Sequential", "mixed_float16", "float16", "float32", "base policy"),
    LayerPrecision("a|b", "Dense", "mixed_float16", "float16", "float32", "base policy"),
    LayerPrecision("out", "Dense", "float32", "float32", "float32", "output: the loss sees it"),
)
GOOD = TrainingReport(
    policy="mixed_float16",
    reason="asked for by name",
    steps=200,
    skipped_steps=2,
    loss_scales=(Reading(100, 0, 2.0**15, 2, 0.0, 99), Reading(200, 1, 2.0**15, 2, 0.0, 199)),
    model="net",
    layers=ROWS,
    curves={"loss": (2.0, 1.0), "val_loss": (2.5, 1.5), "skipped_steps": (2.0, 0.0)},
)
PROBLEM = Finding("underflow", "problem", "Gradients are <0>", "Raise the scale")


def test_a_report_without_findings_passes():
    assert GOOD.verdict == "PASS"
    assert GOOD.conclusion == (
        "200 steps in mixed_float16 (asked for by name). 2 of 3 layers compute in float16. "
        "2 steps (1.0%) were skipped, and the loss scale ended at 32768. "
        "The loss went from 2 to 1."
    )


def test_one_epoch_of_one_step_is_told_and_drawn_as_one():
    first = replace(GOOD.loss_scales[0], step=1, skipped_steps=1)
    changes = {"steps": 1, "skipped_steps": 1, "loss_scales": (first,), "curves": {"loss": (2.0,)}}
    short = replace(GOOD, **changes)
    assert short.conclusion.startswith("1 step in mixed_float16")
    assert "1 step (100.0%) was skipped" in short.conclusion
    assert short.conclusion.endswith("The loss was 2.")
    _, picture = figures.curves_by_epoch(short.curves, 0)[0]
    epochs = picture.partition('id="matplotlib.axis_1"')[2].partition('id="matplotlib.axis_2"')[0]
    assert re.findall(r">([^<>]+)</text>", epochs) == ["1", "epoch"]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"findings": (Finding("odd sizes", "note", "x"),)}, "PASS"),
        ({"findings": (Finding("odd sizes", "warning", "x"),)}, "INCONCLUSIVE"),
        ({"events": (Event(4, "skips"),)}, "INCONCLUSIVE"),
        ({"findings": (PROBLEM,)}, "FAIL"),
        ({"curves": {"loss": (1.0, math.nan)}}, "FAIL"),
    ],
)
def test_findings_decide_the_verdict(changes, verdict):
    assert replace(GOOD, **changes).verdict == verdict


def test_the_page_has_everything_and_loads_nothing(tmp_path):
    gradients = GradientHealth(
        9, 1.0, 0.1, 0.4, 6.0, (VariableHealth("a/kernel", 9, 0.7, 0.6, 0.1),)
    )
    report = replace(
        GOOD, findings=(PROBLEM,), events=(Event(7, "a step <failed>"),), gradients=gradients
    )
    text = report.save(tmp_path / "x.html").read_text()
    for part in ("✗ needs a change", "a step &lt;failed&gt;", "Gradients are &lt;0&gt;"):
        assert part in text
    for part in ("60.0% lost", "output: the loss sees it", "skipped_steps by epoch"):
        assert part in text
    assert text.count("<svg") >= 2
    assert not re.search(r"<script|<link|src=|url\(http", text)
    assert "#010203" not in text  # ink follows the page
    assert report.save(tmp_path / "y.html").read_text() == text


def test_a_float32_training_has_a_page_without_curves_of_a_scale(tmp_path):
    curves = {"loss": (1.0,), "loss_scale": (1.0,), "skipped_steps": (0.0,)}
    report = TrainingReport("float32", "asked for by name", steps=3, curves=curves)
    text = report.save(tmp_path / "x.html").read_text()
    assert "Loss and metrics</h2>" in text
    assert "loss_scale by epoch" not in text
    assert "Gradients</h2>" not in text


def test_json_has_words_for_numbers_that_are_not_finite(tmp_path):
    report = replace(GOOD, curves={"loss": (1.0, math.nan)})
    data = json.loads(report.save(tmp_path / "x.json").read_text(), parse_constant=pytest.fail)
    assert data["schema"] == "tfmp.training/2"
    assert data["verdict"] == "FAIL"
    assert data["curves"]["loss"] == [1.0, "nan"]
    assert data["loss_scales"][0]["gradient_step"] == 99


def test_markdown_has_the_epochs_and_the_plan(tmp_path):
    text = replace(GOOD, first_epoch=3).save(tmp_path / "x.md").read_text()
    assert "| 5 | 1 | 1.5 | 0 |" in text
    assert "| a\\|b | Dense | float16 | float32 | base policy |" in text
    assert text.index("| out |") < text.index("| / |")


def test_the_file_of_a_report_is_checked_before_the_training(tmp_path):
    with pytest.raises(ValueError, match=r"one of the suffixes \.html, \.json, \.md"):
        MixedPrecision(report=tmp_path / "x.txt")
    with pytest.raises(ValueError, match="folder that exists"):
        MixedPrecision(report=tmp_path / "none" / "x.html")


@pytest.mark.parametrize("name", ["report", "log_dir"])
def test_paths_are_checked_before_the_training(name):
    with pytest.raises(TypeError, match=f"{name} expects a path, .*; received 3 of type int"):
        MixedPrecision(**{name: 3})


def test_a_notebook_shows_the_page():
    headline, page = headline_and_page(GOOD._repr_html_())
    assert headline == f"✓ no trouble found. {GOOD.conclusion}"
    assert "no trouble found" in page
    assert "<svg" in page
