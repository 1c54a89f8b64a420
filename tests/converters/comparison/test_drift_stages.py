"""The drift split by step, and the noise floor, against what each must be."""

from dataclasses import replace

import keras_models
import numpy as np
import pytest

from tfmp.converters import convert, validate
from tfmp.converters.report.merge import merge_reports
from tfmp.converters.report.model import DriftReport, Stage, render


def samples(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *shape), dtype=np.float32)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A model and its files: ONNX in FP16 and FP32, TFLite in FP16."""
    folder = tmp_path_factory.mktemp("split")
    model = keras_models.dense()
    files = [
        convert(model, to="onnx", output=folder / "half.onnx"),
        convert(model, to="onnx", output=folder / "full.onnx", precision="fp32"),
        convert(model, to="tflite", output=folder / "half.tflite"),
    ]
    return model, files


@pytest.fixture(scope="module")
def report(converted) -> DriftReport:
    model, files = converted
    return validate(model, files, samples(64, 6), split=True)


def drifts(stages: tuple[Stage, ...]) -> dict[str, float]:
    assert all(stage.error is None for stage in stages), stages
    return {stage.name: stage.outputs[0].rel_l2 for stage in stages}


@pytest.mark.slow
def test_each_step_has_the_drift_of_its_kind(report):
    half, full, tflite = report.candidates
    for candidate in (half, tflite):
        found = drifts(candidate.stages)
        assert list(found) == ["export", "weights", "arithmetic"]
        assert found["export"] < 1e-6
        # Small constants of a .tflite file stay FP32.
        assert (1e-5 if candidate is half else 0) <= found["weights"] < 1e-3
        assert 1e-5 < found["arithmetic"] < 1e-3
        total = candidate.outputs[0].rel_l2
        assert total <= sum(found.values()) * (1 + 1e-6), "steps must reach the candidate"
    assert drifts(full.stages) == {"export": full.outputs[0].rel_l2}
    (floor,) = report.reference.noise_floor
    assert (floor.name, floor.dtype, floor.samples) == ("scores", "float64", 64)
    assert 1e-9 < floor.rel_l2 < 1e-6


def test_an_overflow_is_the_arithmetics_fault(tmp_path):
    model = keras_models.square_overflow()
    artifact = convert(model, output=tmp_path / "v.onnx", fp16_edges=True)
    report = validate(model, artifact, samples(64, 1024), split=True)
    found = drifts(report.candidates[0].stages)
    assert found["arithmetic"] > 0.1
    assert found["weights"] < 1e-2


def test_references_in_onnx_and_candidates_that_fail(converted, tmp_path):
    _, files = converted
    half = convert(files[1].path, output=tmp_path / "from_onnx.onnx")
    report = validate(files[1].path, half, samples(64, 6), split=True)
    assert list(drifts(report.candidates[0].stages)) == ["weights", "arithmetic"]
    assert report.reference.noise_floor == ()
    assert any("noise floor not measured" in note for note in report.reference.notes)
    model, _ = converted
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    report = validate(model, broken, samples(64, 6), split=True)
    assert report.candidates[0].stages == ()


def test_shards_merge_to_the_whole(converted, report):
    model, files = converted
    x = samples(64, 6)
    parts = [validate(model, files[0], part, split=True) for part in (x[:32], x[32:])]
    merged = merge_reports(parts)
    assert merged.candidates[0].stages == report.candidates[0].stages
    assert merged.reference == report.reference
    bare = replace(parts[1], reference=replace(parts[1].reference, noise_floor=()))
    assert merge_reports([parts[0], bare]).reference.noise_floor == ()


def test_every_rendering_shows_the_steps(report):
    page, text = render(report, ".html"), render(report, ".md")
    for name in ("noise floor of FP32", "FP32 file", "FP16 weights", "FP16 arithmetic"):
        assert name in page
        assert name in text
    assert DriftReport.from_dict(report.to_dict()) == report
    failed = replace(report.candidates[0], stages=(Stage("weights", (), "no memory"),))
    broken = replace(report, candidates=(failed,))
    assert "FP16 weights not measured (no memory)" in render(broken, ".html")
