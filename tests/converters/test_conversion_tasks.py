"""Kinds of tasks from Keras to a report: small trained models, converted and judged.

Boxes and pictures that are made again: `test_samples.py` runs samples/declare_tasks.py.
"""

from typing import Any

import pytest
import task_models

from tfmp.converters import convert
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.report.summary import meaning_text

trains_for_seconds = pytest.mark.slow


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Trains a model, converts it with its held-out data, and gives the report of the file."""
    trained: dict[str, task_models.Trained] = {}

    def report(name: str, to: str = "onnx") -> DriftReport:
        if name not in trained:
            trained[name] = task_models.ALL[name]()
        task = trained[name]
        artifact = convert(
            task.model,
            to,
            data=task.samples,
            labels=task.labels,
            output=tmp_path_factory.mktemp(name) / f"{name}.{to}",
        )
        assert artifact.report is not None
        return artifact.report

    return report


def passed(report: DriftReport) -> CandidateReport:
    (candidate,) = report.candidates
    assert report.verdict == "PASS", candidate.reasons
    return candidate


def meaning(candidate: CandidateReport) -> str:
    (output,) = candidate.outputs
    return meaning_text(output)


def metrics(candidate: CandidateReport) -> dict[str, float]:
    (label,) = candidate.labels
    return {metric.name: metric.reference for metric in label.metrics}


def names(candidate: CandidateReport) -> set[str]:
    return {check.name for check in candidate.checks}


@trains_for_seconds
def test_segmentation(judged):
    candidate = passed(judged("segmentation"))
    (output,) = candidate.outputs
    assert (output.task.kind, output.decided) == ("classification", 400 * 24 * 24)
    assert {"accuracy", "mean IoU"} <= set(metrics(candidate))
    assert metrics(candidate)["mean IoU"] > 0.6


@trains_for_seconds
def test_a_causal_language_model(judged):
    candidate = passed(judged("causal_lm", "tflite"))
    (output,) = candidate.outputs
    assert (output.task.kind, output.decided) == ("classification", 800 * 12)
    # The reference cannot know the first two steps, so some of its tokens are ties.
    assert output.changed >= output.decisions.firm
    assert metrics(candidate)["accuracy"] > 0.5


def test_an_embedding(judged):
    candidate = passed(judged("embedding"))
    assert meaning(candidate) == (
        "output 'embedding' is judged by distances, because its meaning is unknown"
    )
    assert {"rel_l2", "sample_rel_l2"} <= names(candidate)
    assert candidate.outputs[0].decision is None


def test_a_regression(judged):
    candidate = passed(judged("regression"))
    assert candidate.outputs[0].task.kind == "regression"
    assert metrics(candidate)["mean absolute error"] < 60
    assert "error_increase" in names(candidate)
