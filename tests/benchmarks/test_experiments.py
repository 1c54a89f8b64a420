"""The page of the experiments: its tables are made of the reports, cell by cell."""

import pytest
from repository import BENCHMARKS
from scripts import script
from toy_experiment import TASK

from tfmp.experiment.report import ExperimentReport
from tfmp.experiment.results import Run


@pytest.fixture
def report() -> ExperimentReport:
    runs = [
        Run(arm, seed, metric, losses=(1.0, 0.5), seconds_per_step=0.01, loss_scale=scale)
        for arm, metric, scale in (
            ("float32", 0.95, None),
            ("mixed_float16", 0.6, 32.0),
            ("float16", float("nan"), None),
            ("float16_scaled", 0.5, 64.0),
        )
        for seed in range(3)
    ]
    arms = tuple(dict.fromkeys(run.arm for run in runs))
    return ExperimentReport(TASK, arms, 3, tuple(runs), {"keras": "3"})


def test_the_page_shows_every_task_and_every_loss_scale(report: ExperimentReport) -> None:
    text = script(BENCHMARKS / "experiments.py").page([report], [report], 3)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert [
        "toy",
        "accuracy",
        "nothing yet",
        "0.600 (worse)",
        "not finite with 3 of 3 seeds",
        "0.500 (worse)",
    ] in rows
    heading = "task, arm, metric, difference, finding, step, skipped, last scale, vanish"
    assert heading.split(", ") in rows
    (scaled,) = (row for row in rows if row[:2] == ["toy", "float16_scaled"])
    assert (scaled[2], scaled[4], scaled[7]) == ("0.500", "worse", "64")
