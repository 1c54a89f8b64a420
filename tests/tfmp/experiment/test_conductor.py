"""compare: arms are paired, results are kept, and a crash costs one run."""

import json
from pathlib import Path

import numpy as np
import pytest
from repository import SUPPORT

from tfmp.experiment.arms import LOSS_SCALES
from tfmp.experiment.conductor import compare
from tfmp.experiment.report import ExperimentReport
from tfmp.experiment.tasks import Task

TINY = f"{SUPPORT / 'tiny_task.py'}:task"
X, Y = np.zeros((4, 2), "float32"), np.zeros(4, "float32")
ARMS = ("float32", "mixed_float16", "float32+onnx")


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> tuple[ExperimentReport, Path, list[str]]:
    folder = tmp_path_factory.mktemp("experiment")
    told: list[str] = []
    return compare(TINY, ARMS, 2, folder=folder, progress=told.append), folder, told


@pytest.mark.slow
def test_every_arm_is_run_with_every_seed(done):
    report, _, told = done
    assert [(run.arm, run.seed) for run in report.runs] == [(a, s) for s in (0, 1) for a in ARMS]
    assert all(run.usable for run in report.runs)
    assert told[1:3] == ["float32, seed 0", "mixed_float16, seed 0"]
    assert report.task["metric"] == "closeness"
    # Close with the same seed, further apart with another one.
    losses = {(run.arm, run.seed): run.losses for run in report.runs}
    for seed in (0, 1):
        one, other = losses["float32", seed], losses["mixed_float16", seed]
        assert other == pytest.approx(one, rel=0.02)
    assert losses["float32", 0][0] != pytest.approx(losses["float32", 1][0], rel=0.02)
    training = {run.seed: run for run in report.runs if run.arm == "float32"}
    for run in report.runs:
        if run.arm == "float32+onnx":
            assert run.metric == pytest.approx(training[run.seed].metric, abs=0.01)
            assert run.verdict in ("PASS", "INCONCLUSIVE")
            assert run.file_bytes == Path(run.file).stat().st_size
            assert run.rel_l2 < 1e-2


@pytest.mark.slow
def test_an_interrupted_experiment_goes_on(done):
    _, folder, _ = done
    first = next(folder.glob("float32-seed0-*.run.json"))
    document = json.loads(first.read_text())
    first.write_text(json.dumps(document | {"metric": 0.125}))
    next(folder.glob("mixed_float16-seed1-*.run.json")).write_text("{")  # damaged: it is run again
    told: list[str] = []
    again = compare(TINY, ARMS, 2, folder=folder, progress=told.append)
    assert told == ["preparing the task", "mixed_float16, seed 1"]
    assert again.runs[0].metric == 0.125  # the result that was kept, not one of a new run
    assert all(run.usable for run in again.runs)


@pytest.mark.slow
def test_a_crash_costs_one_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TINY_TASK_CRASHES", "float16")
    report = compare(TINY, ["float16", "mixed_float16"], 1, folder=tmp_path)
    errors = {run.arm: run.error for run in report.runs}
    assert "ended by itself with status 7" in errors.pop("float16")
    assert errors == {"float32": "", "mixed_float16": ""}
    monkeypatch.delenv("TINY_TASK_CRASHES")
    again = compare(TINY, ["float16", "mixed_float16"], 1, folder=tmp_path)
    assert not any(run.error for run in again.runs)


@pytest.mark.slow
def test_a_task_that_cannot_be_made_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file 'missing\.py'\.$"):
        compare("missing.py:task", folder=tmp_path)
    local = Task("local", lambda: None, (X, Y), (X, Y), lambda p, y: 0.0, 0.1)
    with pytest.raises(ValueError, match="sent to another process"):
        compare(local, folder=tmp_path)


def test_functions_of_the_script_itself_are_refused(tmp_path):
    def build():
        """Stands for a function of `__main__`, which no other process can import."""

    build.__module__ = "__main__"
    with pytest.raises(ValueError, match="functions of the script or notebook itself"):
        compare(Task("local", build, (X, Y), (X, Y), np.mean, 0.1), folder=tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []  # the first result makes the folder
    with pytest.raises(TypeError, match=r"expects a tfmp\.Task or a name, received 3"):
        compare(3, folder=tmp_path)


def test_the_folder_is_checked_before_the_task_is_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="folder expects a folder that can be written to"):
        compare("missing.py:task", folder=tmp_path / "file")


@pytest.mark.slow
def test_a_training_without_finite_predictions_makes_no_file(tmp_path, monkeypatch):
    report = compare(f"{SUPPORT / 'tiny_task.py'}:diverging", ["float32+onnx"], 1, folder=tmp_path)
    assert report.runs[0].metric != report.runs[0].metric
    assert (
        "float32 has no model to convert: its predictions or their metric" in report.runs[1].error
    )
    assert report.conclusion.startswith("Nothing can be concluded")


@pytest.mark.slow
def test_what_jax_trained_becomes_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    report = compare(TINY, ["mixed_float16+onnx", "float16_scaled"], 1, folder=tmp_path)
    assert report.task["backend"] == "jax"
    assert [run.error for run in report.runs] == [""] * 4


@pytest.mark.slow
def test_arms_that_differ_in_the_loss_scale_alone(tmp_path):
    report = compare(TINY.replace(":task", ":faint"), LOSS_SCALES, 1, folder=tmp_path)
    runs = {run.arm: run for run in report.runs}
    scales = {name: runs[name].loss_scale for name in LOSS_SCALES}
    assert scales["mixed_float16_unscaled"] == 1
    assert scales["mixed_float16_manual"] == 256
    assert scales["mixed_float16_static"] > scales["mixed_float16"] == 2**15
    lost = {name: runs[name].vanished for name in LOSS_SCALES}
    assert lost["mixed_float16_unscaled"] > 0.5 > 0.01 > lost["mixed_float16_static"]
    moved = {name: abs(runs[name].losses[1] - runs[name].losses[0]) for name in runs}
    assert moved["mixed_float16_unscaled"] < moved["mixed_float16_static"]
    assert "of its gradients vanish in FP16 at its loss scale" in report.why(
        next(one for one in report.results if one.arm.name == "mixed_float16_unscaled")
    )
