"""Kinds of tasks from Keras to a report: small trained models, converted and judged.

Of other kinds: samples/declare_tasks.py, which `test_samples.py` runs.
"""

from pathlib import Path

import keras
import pytest

from tfmp.converters import convert
from tfmp.experiment.loading import load_task


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "metric", "verdict"),
    [
        ("segmentation", "classification", "mean IoU", "INCONCLUSIVE"),  # of 128 pictures
        ("tabular", "regression", "mean absolute error", "PASS"),
    ],
)
def test_a_trained_model_is_judged_on_what_it_was_not_trained_with(
    name: str, kind: str, metric: str, verdict: str, tmp_path: Path
):
    task = load_task(name)
    keras.utils.set_random_seed(0)
    model = task.build()
    model.fit(*task.train, epochs=task.epochs, batch_size=task.batch_size, verbose=0)
    x, y = task.test
    report = convert(model, "onnx", tmp_path / "m.onnx", data=x, labels=y).report
    (candidate,) = report.candidates
    assert candidate.verdict == verdict, candidate.reasons
    assert candidate.outputs[0].task.kind == kind
    assert metric in [one.name for one in candidate.labels[0].metrics]
    assert not [check.text for check in candidate.checks if check.verdict == "FAIL"]
