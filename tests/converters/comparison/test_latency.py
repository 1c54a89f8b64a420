"""Latencies: which calls are counted, on what, and how a report shows them."""

from dataclasses import replace

import keras_models
import numpy as np
import pytest

from tfmp.converters import convert, validate
from tfmp.converters.report.contents import latency_table
from tfmp.converters.report.model import DriftReport, render


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> DriftReport:
    folder = tmp_path_factory.mktemp("latency")
    model = keras_models.dense()
    files = [convert(model, to=kind, output=folder / f"m.{kind}") for kind in ("onnx", "tflite")]
    data = np.random.default_rng(0).standard_normal((8, 6), dtype=np.float32)
    return validate(model, files, data, latency=True)


def test_the_files_themselves_are_timed_and_no_emulation(report):
    onnx, tflite = report.candidates
    assert onnx.runner.name == "emulated"
    assert (onnx.latency.runner, onnx.latency.device) == ("onnxruntime", "CPU")
    assert (tflite.latency.runner, tflite.latency.device) == ("litert", "CPU")
    assert report.reference.latency.runner == "keras"
    for timed in (onnx.latency, tflite.latency, report.reference.latency):
        assert 0 < timed.low_ms <= timed.median_ms <= timed.high_ms
        assert timed.calls >= 5
        assert timed.batch == 1


def test_renderings_and_json_have_it(report):
    table = latency_table(report)
    rows = [dict(zip(table.heading, row, strict=True)) for row in table.rows]
    assert [row["Model"] for row in rows] == [report.reference.name, "m.onnx", "m.tflite"]
    assert rows[2]["Runs on"] == "litert, CPU"
    assert "Runs on" in render(report, ".html")
    assert "Runs on" in render(report, ".md")
    assert DriftReport.from_dict(report.to_dict()) == report
    bare = replace(
        report,
        reference=replace(report.reference, latency=None),
        candidates=tuple(replace(item, latency=None) for item in report.candidates),
    )
    assert "Latency" not in render(bare, ".md")
    assert "Latency" not in render(bare, ".html")
