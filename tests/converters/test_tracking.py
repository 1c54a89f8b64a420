"""A drift report in a run of MLflow, for which a stand-in is here."""

import math
import sys
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest

from tfmp.converters import DriftBudget, DriftReport, log_to_mlflow
from tfmp.converters.drift import Comparison
from tfmp.converters.report import CandidateEvidence, Evidence, ReferenceReport
from tfmp.converters.runners import RunnerInfo
from tfmp.converters.samples import DataReport
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec


@pytest.fixture(scope="module")
def report() -> DriftReport:
    """Two classes that an FP16 file with an odd name tells apart as before, but for one sample."""
    right = np.eye(2, dtype=np.float32)[np.arange(400) % 2]
    received = right.copy()
    received[0] = received[0, ::-1]
    spec = TensorSpec("probs:0", (None, 2), "float32")
    comparison = Comparison("c", [spec], [spec])
    keys = np.arange(400, dtype=np.uint64)
    comparison.update({"probs:0": right}, {"probs:0": received}, np.arange(400) % 2, keys)
    runner = RunnerInfo("onnxruntime", "CPU", "emulated")
    outputs, labels = comparison.outputs(), comparison.labels()
    file = CandidateEvidence("out/a b.onnx", "onnx", runner, outputs=outputs, labels=labels)
    crashed = CandidateEvidence("c.onnx", "onnx", runner, error="it crashed")
    data = DataReport("x.npz", 400, "ab" * 32, synthetic=False, labelled=True)
    evidence = Evidence(ReferenceReport("net", "keras"), (file, crashed), data)
    return DriftReport.judged(evidence, DriftBudget(rel_l2=1.0))


FILE = "out_a b.onnx"


@pytest.mark.parametrize("active", [None, "a run"])
def test_the_active_run_or_one_of_its_own_gets_the_report(report, monkeypatch, active):
    mlflow = MagicMock()
    mlflow.active_run.return_value = active
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    log_to_mlflow(report)
    assert mlflow.start_run.called == (active is None)
    assert dict(call.args for call in mlflow.set_tag.call_args_list) == {
        "tfmp.verdict": "FAIL",
        f"tfmp.verdict.{FILE}": str(report.candidates[0].verdict),
        "tfmp.verdict.c.onnx": "FAIL",
    }
    metrics = mlflow.log_metrics.call_args_list[0].args[0]
    (output,) = report.candidates[0].outputs
    assert metrics[f"{FILE}/probs_0/rel_l2"] == output.rel_l2
    assert metrics[f"{FILE}/probs_0/flip_rate"] == 1 / 400
    assert metrics[f"{FILE}/probs_0/accuracy"] == 399 / 400
    files = {path: text for text, path in (call.args for call in mlflow.log_text.call_args_list)}
    assert sorted(files) == ["tfmp/drift.html", "tfmp/drift.json", "tfmp/drift.md"]
    assert "<html" in files["tfmp/drift.html"]
    lost = replace(report.candidates[0], outputs=(replace(output, rel_l2=math.inf),))
    log_to_mlflow(replace(report, candidates=(lost,)))  # the verdict tells what is not finite
    metrics = mlflow.log_metrics.call_args.args[0]
    assert f"{FILE}/probs_0/rel_l2" not in metrics
    assert f"{FILE}/probs_0/max_abs" in metrics


def test_a_machine_without_mlflow_says_what_to_install(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InputError, match=r"needs the package mlflow .* pip install mlflow\."):
        log_to_mlflow(report)
