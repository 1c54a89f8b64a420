"""The report of an experiment: what it concludes from runs that are known."""

import json
from dataclasses import replace

import pytest
from notebook_cells import headline_and_page

from tfmp.experiment.arms import ARMS
from tfmp.experiment.report import ExperimentReport
from tfmp.experiment.results import Run

TASK = {
    "name": "toy",
    "about": "Made-up numbers.",
    "metric": "accuracy",
    "sign": 1,
    "margin": 0.01,
    "epochs": 4,
    "batch_size": 32,
    "train_samples": 1000,
    "test_samples": 2000,
    "weights": 1234,
    "optimizer": "Adam",
    "epsilon": 1e-7,
    "fingerprint": "0",
    "backend": "tensorflow",
    "device": "CPU",
}


def runs(arm: str, metrics: list[float], **values: object) -> list[Run]:
    return [Run(arm, seed, metric, **values) for seed, metric in enumerate(metrics)]


def report(*groups: list[Run], **task: object) -> ExperimentReport:
    found = [run for group in groups for run in group]
    arms = tuple(dict.fromkeys(run.arm for run in found))
    return ExperimentReport({**TASK, **task}, arms, 3, tuple(found), {"keras": "3"})


BASE = runs("float32", [0.95, 0.96, 0.955], losses=(1.0, 0.5), seconds_per_step=0.01, stuck=0.05)
GOOD = {"verdict": "PASS", "latency_ms": 0.1, "rel_l2": 5e-4}


def test_what_is_shipped():
    large = runs("float32+onnx", [0.95, 0.96, 0.955], file_bytes=5000, **GOOD)
    small = runs("float32+tflite", [0.95, 0.96, 0.956], file_bytes=4000, **GOOD)
    found = report(BASE, large, small)
    assert found.shipped is not None
    assert found.shipped.arm.name == "float32+tflite"
    assert found.conclusion.startswith("Ship float32+tflite: its accuracy of 0.955")
    files = runs("float32+onnx", [0.99, 1.0, 0.995], file_bytes=5000, **GOOD)
    assert "is better than float32's 0.955" in report(BASE, files).conclusion


@pytest.mark.parametrize(
    "bad",
    [
        runs("float32+tflite", [0.90, 0.91, 0.905], file_bytes=4000, **GOOD),
        runs("float32+tflite", [0.95, 0.96, 0.955], file_bytes=4000, verdict="FAIL"),
        runs("float32+tflite", [0.95, 0.96, float("nan")], file_bytes=4000, **GOOD),
        runs("float32+tflite", [0.98, 0.90, 0.955], file_bytes=4000, **GOOD),
    ],
    ids=["worse", "failed its drift report", "not finite", "open"],
)
def test_a_small_file_that_is_not_proven_is_not_shipped(bad: list[Run]):
    large = runs("float32+onnx", [0.95, 0.96, 0.955], file_bytes=5000, **GOOD)
    found = report(BASE, large, bad)
    assert found.shipped is not None
    assert found.shipped.arm.name == "float32+onnx"
    assert report(BASE, bad).shipped is None
    assert "No file can be shipped" in report(BASE, bad).conclusion


def test_a_lower_error_is_better_where_the_metric_says_so():
    worse = runs("mixed_float16", [2.0, 2.1, 2.05])
    found = report(runs("float32", [1.0, 1.1, 1.05]), worse, sign=-1, margin=0.1)
    assert str(found.results[1].finding) == "worse"
    assert "mixed_float16 loses" in found.conclusion
    higher = report(runs("float32", [1.0, 1.1, 1.05]), worse, sign=1, margin=0.1)
    assert str(higher.results[1].finding) == "better"


def test_trainings_as_good_as_float32_are_named_with_their_time():
    half = runs("mixed_float16", [0.95, 0.96, 0.955], seconds_per_step=0.02)
    found = report(BASE, half, runs("float16", [0.5, 0.5, 0.5]))
    shipped, good, loses = found.conclusion.splitlines()  # a line each
    assert shipped == "No file was made, so there is none to ship"
    times = "mixed_float16 (0.955, 2.00 times the step time)"
    assert good == f"Trained as well as float32: {times}"
    assert loses.startswith("float16 loses: ")
    assert str(found).startswith(found.conclusion)


def test_pure_float16_says_why_it_loses():
    lost = runs("float16", [0.5, 0.5, 0.5], stuck=0.6)
    base = [replace(run, vanished=0.3) for run in BASE]
    why = report(base, lost).why(report(base, lost).results[1])
    assert "accuracy 0.500 against 0.955" in why
    assert "60% of its weights did not move in the last epoch (float32: 5%)" in why
    assert "divides by its epsilon of 1e-07 alone (in float16: 1.2e-07)" in why
    assert "30% of the gradients vanish in FP16 without loss scaling" in why
    harmless = report(base, lost, epsilon=1e-3).why(report(base, lost).results[1])
    assert "epsilon" not in harmless
    found = report(base, runs("float16_scaled", [0.5, 0.5, 0.5]))
    assert "without loss scaling" not in found.why(found.results[1])
    lost = runs("mixed_float16_unscaled", [0.5, 0.5, 0.5], stuck=0.6)
    assert "half a spacing of FP16" not in report(BASE, lost).conclusion
    assert "did not move" in report(BASE, lost).conclusion


def test_seeds_that_leave_it_open_are_told():
    found = report(BASE, runs("mixed_float16", [0.99, 0.93, 0.955]))
    assert "3 seeds leave open whether mixed_float16 is as good. About" in found.conclusion
    needs = runs("mixed_float16", [0.99, 0.93, 0.955]), runs("mixed_bfloat16", [0.95, 0.93, 0.955])
    at_the_margin = report(BASE, *needs)
    assert (
        "mixed_float16 and mixed_bfloat16 are as good. More than 1,000" in at_the_margin.conclusion
    )


def test_the_failure_of_float32_is_told():
    found = report([Run("float32", 0, error="out of memory")], runs("mixed_float16", [0.9]))
    assert found.conclusion.startswith("Nothing can be concluded")
    assert found.results[1].difference is None
    crashed = report([Run("float32", 0, error="the process was ended by SIGSEGV")])
    assert crashed.conclusion == (
        "Nothing can be concluded: float32 itself failed with 1 of 1 seeds: the process was ended "
        "by SIGSEGV."
    )
    once = report([*BASE[:2], Run("float32", 2, float("nan"))], runs("mixed_float16", [0.95, 0.96]))
    assert "failed with 1 of 3 seeds: its predictions or" in once.conclusion
    assert "float32 loses" not in once.conclusion
    assert "float32 is worse" not in once._repr_html_()


def test_all_forms_are_written(tmp_path):
    broken = [Run("float16", seed, float("nan"), (float("nan"),)) for seed in range(3)]
    files = runs("float32+onnx", [0.95, 0.96, 0.955], file_bytes=5000, **GOOD)
    crashed = [Run("float32+tflite", 0, error="the process was ended by SIGSEGV")]
    found = report(BASE, broken, files, crashed)
    for suffix in (".html", ".json", ".md"):
        found.save(tmp_path / f"report{suffix}")
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["schema"] == "tfmp.experiment/1"
    assert document["ship"] == "float32+onnx"
    assert [Run.from_dict(run).seed for run in document["runs"]] == [*[0, 1, 2] * 3, 0]
    page = (tmp_path / "report.html").read_text()
    assert "ship float32+onnx" in page
    assert page.count("<svg") == 4  # bars of the arms
    text = (tmp_path / "report.md").read_text()
    assert "| float32+onnx |" in text
    assert "- float32+tflite: the process was ended by SIGSEGV" in text
    assert "“as good” means, with 95% confidence" in text


def test_small_pages(tmp_path):
    found = report(BASE, name="<script>alert(1)</script>\u202e")
    page = found.save(tmp_path / "r.html").read_text()
    assert "<script>" not in page
    assert "\u202e" not in page
    headline, page = headline_and_page(report(BASE)._repr_html_())
    assert headline == "? nothing to ship yet. No file was made, so there is none to ship"
    assert "Evidence" in page
    found = report(*(runs(name, [0.95, 0.96, 0.955], losses=(1.0, 0.5)) for name in ARMS))
    page = found._repr_html_()
    assert all(page.count(name) > 1 for name in ARMS)


def test_coarse_metrics_and_tiny_margins():
    # 10 samples, of which 1 is right with each seed: one sample more is 0.1, not 0.01.
    tenth = runs("float32", [0.1] * 3), runs("float16", [0.1] * 3)
    found = report(*tenth, test_samples=10, margin=0.05)
    assert str(found.results[1].finding) == "open"
    scale = report(runs("float32", [0.123] * 3), runs("float16", [0.123] * 3), test_samples=100)
    assert str(scale.results[1].finding) == "as good"
    found = report(BASE, margin=2e-9)
    assert found.number(2e-9) == "2e-09"
    assert report(BASE, margin=0.01).number(0.95512) == "0.955"
