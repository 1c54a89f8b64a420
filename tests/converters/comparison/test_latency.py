"""Latencies: which calls are counted, on what, and how a report shows them."""

from dataclasses import replace

import keras_models
import numpy as np
import pytest

from tfmp.converters import convert, validate
from tfmp.converters.comparison.plan import Plan
from tfmp.converters.report.contents import latency_table
from tfmp.converters.report.model import CandidateReport, DriftReport, Latency, render
from tfmp.converters.shared.errors import InputError

DATA = np.random.default_rng(0).standard_normal((8, 6), dtype=np.float32)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("latency")
    model = keras_models.dense()
    files = [convert(model, to=kind, output=folder / f"m.{kind}") for kind in ("onnx", "tflite")]
    return model, files


@pytest.fixture(scope="module")
def timed(converted) -> DriftReport:
    return validate(*converted, DATA, latency=True)


def test_the_files_themselves_are_timed_and_no_emulation(timed):
    onnx, tflite = timed.candidates
    assert onnx.runner.name == "emulated"
    assert (onnx.latency.runner, onnx.latency.device) == ("onnxruntime", "CPU")
    assert (tflite.latency.runner, tflite.latency.device) == ("litert", "CPU")
    assert timed.reference.latency.runner == "keras"
    for latency in (onnx.latency, tflite.latency, timed.reference.latency):
        assert 0 < latency.low_ms <= latency.median_ms <= latency.high_ms
        assert latency.calls >= 5
        assert latency.batch == 1


def with_batches(plain: DriftReport) -> DriftReport:
    """The report of an ONNX file that was timed with 1 and 8 samples, as were two policies."""

    def made(batch: int, memory: int | None, policy: str = "") -> Latency:
        return Latency(2.0, 1.0, 4.0, 50, batch, "onnxruntime", "CPU", memory, policy)

    policies = [made(n, n * 10**6, policy) for policy in ("float32", "half") for n in (1, 8)]
    candidate = replace(plain.candidates[0], latencies=(made(1, 5 * 10**5), made(8, None)))
    reference = replace(plain.reference, latencies=tuple(policies))
    return replace(plain, reference=reference, candidates=(candidate,))


def test_models_stand_beside_each_other_by_batch_size(timed):
    table = latency_table(with_batches(timed))
    heading, rows = table.heading, table.rows
    assert heading[2:] == ("Call", "5th to 95th percentile", "Samples/s", "Memory", "Runs on")
    assert [row[:2] for row in rows] == [
        ("1", "dense, Keras float32"),
        ("1", "dense, Keras half"),
        ("1", "m.onnx"),
        ("8", "dense, Keras float32"),
        ("8", "dense, Keras half"),
        ("8", "m.onnx"),
    ]
    assert rows[2][2:6] == ("2 ms", "1 to 4 ms", "500", "500.0 kB")
    assert rows[5][4:6] == ("4,000", "-")


def test_renderings_and_json_have_them(timed):
    table = latency_table(timed)
    rows = [dict(zip(table.heading, row, strict=True)) for row in table.rows]
    assert [row["Model"] for row in rows] == [timed.reference.name, "m.onnx", "m.tflite"]
    assert rows[2]["Runs on"] == "litert, CPU"
    assert "| Latency |" in render(timed, ".md")
    report = with_batches(timed)
    assert '<td class="number">500.0 kB</td>' in render(report, ".html")
    row = "| 8 | dense, Keras float32 | 2 ms | 1 to 4 ms | 4,000 | 8.0 MB |"
    assert row in render(report, ".md")
    assert DriftReport.from_dict(report.to_dict()) == report


def test_without_them_a_report_shows_none(timed):
    bare = replace(
        timed,
        reference=replace(timed.reference, latency=None),
        candidates=tuple(replace(item, latency=None) for item in timed.candidates),
    )
    assert latency_table(bare).rows == ()
    assert "Latency" not in render(bare, ".md")
    assert "Latency" not in render(bare, ".html")
    document = bare.to_dict()
    for item in (document["reference"], *document["candidates"]):
        del item["latencies"]
    assert DriftReport.from_dict(document) == bare


def test_the_plan():
    plans = [Plan.of(latency=latency) for latency in (False, True, [32, 1, 8, 1])]
    found = [(plan.latency, plan.latency_batches) for plan in plans]
    assert found == [(False, ()), (True, ()), (True, (1, 8, 32))]


@pytest.mark.parametrize("latency", ["yes", (), 3, (0,), (1.5,)])
def test_what_is_no_batch_size(latency):
    with pytest.raises(InputError, match="latency: expected"):
        Plan.of(latency=latency)


@pytest.mark.slow
def test_files_and_keras_are_timed_with_their_memory(converted):
    report = validate(*converted, DATA, latency=(1, 4))
    keras = [(item.policy, item.batch) for item in report.reference.latencies]
    policies = ("float32", "mixed_float16")
    assert keras == [(policy, batch) for policy in policies for batch in (1, 4)]
    onnx, tflite = report.candidates
    assert [item.batch for item in onnx.latencies] == [1, 4]
    assert [item.batch for item in tflite.latencies] == [1]
    assert "not timed with other batch sizes: a call takes 1 at once" in tflite.notes
    candidates: tuple[CandidateReport, ...] = report.candidates
    for item in (*report.reference.latencies, *(i for c in candidates for i in c.latencies)):
        assert 0 < item.low_ms <= item.median_ms <= item.high_ms
        assert 2**10 < item.memory_bytes < 2**30
