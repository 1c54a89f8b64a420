"""Latencies over batch sizes: every file and Keras policy, with memory, in every rendering."""

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


def timed(batch: int, memory: int | None, policy: str = "") -> Latency:
    return Latency(2.0, 1.0, 4.0, 50, batch, "onnxruntime", "CPU", memory, policy)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> DriftReport:
    folder = tmp_path_factory.mktemp("latency")
    model = keras_models.dense()
    file = convert(model, to="onnx", output=folder / "m.onnx")
    return validate(model, [file], DATA)


@pytest.fixture
def report(plain) -> DriftReport:
    policies = [timed(n, n * 10**6, policy) for policy in ("float32", "half") for n in (1, 8)]
    (candidate,) = plain.candidates
    candidate = replace(candidate, latencies=(timed(1, 5 * 10**5), timed(8, None)))
    reference = replace(plain.reference, latency=timed(1, None), latencies=tuple(policies))
    return replace(plain, reference=reference, candidates=(candidate,))


def test_models_stand_beside_each_other_by_batch_size(report):
    table = latency_table(report)
    heading, rows = table.heading, table.rows
    assert heading[2:] == ("Call", "5 to 95 of 100", "Samples/s", "Memory", "Runs on")
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


def test_every_rendering_and_json_have_them(report):
    page, text = render(report, ".html"), render(report, ".md")
    assert '<td class="number">500.0 kB</td>' in page
    assert "| 8 | dense, Keras float32 | 2 ms | 1 to 4 ms | 4,000 | 8.0 MB |" in text
    assert DriftReport.from_dict(report.to_dict()) == report


def test_without_them_no_table_appears(plain):
    assert latency_table(plain).rows == ()
    assert "Calls with each batch size" not in render(plain, ".html")
    document = plain.to_dict()
    del document["reference"]["latencies"]
    for candidate in document["candidates"]:
        del candidate["latencies"]
    assert DriftReport.from_dict(document) == plain


@pytest.mark.parametrize(
    ("latency", "asked", "sizes"),
    [(False, False, ()), (True, True, ()), ([32, 1, 8, 1], True, (1, 8, 32))],
)
def test_the_plan(latency, asked, sizes):
    plan = Plan.of(latency=latency)
    assert (plan.latency, plan.latency_batches) == (asked, sizes)


@pytest.mark.parametrize("latency", ["yes", (), 3, (0,), (1.5,)])
def test_what_is_no_batch_size(latency):
    with pytest.raises(InputError, match="latency: expected"):
        Plan.of(latency=latency)


@pytest.mark.slow
def test_files_and_keras_are_timed_with_their_memory(tmp_path):
    model = keras_models.dense()
    fixed = convert(model, to="tflite", output=tmp_path / "m.tflite")
    files = [convert(model, to="onnx", output=tmp_path / "m.onnx"), fixed]
    report = validate(model, files, DATA, latency=(1, 4))
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
