"""The audit: ranges, hidden sums and divisors, set against what FP16 can hold."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import keras
import numpy as np
import pytest

from tfmp.converters import open_source
from tfmp.converters.intake.source import OnnxSource, Origin
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.converters.tflite.audit.audit import ActivationFinding, Audit, audit_model
from tfmp.converters.tflite.audit.meter import RangeMeter

Look = Callable[..., Audit]


@pytest.fixture(scope="module")
def look() -> Look:
    return audit_model


@pytest.fixture(scope="module")
def overflowing(models: ModuleType, look: Look) -> Audit:
    rows = np.random.default_rng(0).normal(size=(6, 1024)).astype(np.float32)
    return look(open_source(models.variance_overflow()), [{"x": rows[:4]}, {"x": rows[4:]}])


def of_layer(result: Audit, layer: str, op: str) -> ActivationFinding:
    return next(found for found in result.activations if (found.layer, found.op) == (layer, op))


def test_the_variance_is_found_with_its_layer_its_peak_and_its_sum(overflowing: Audit) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 1024)).astype(np.float32).astype(float)
    squares = (300 * (rows - rows.mean(axis=1, keepdims=True))) ** 2
    worst = overflowing.activations[0]
    assert (worst.layer, worst.op, worst.status) == ("norm", "MEAN", "overflows")
    assert worst.peak == pytest.approx(squares.mean(axis=1).max(), rel=1e-4)
    assert worst.accumulator == pytest.approx(squares.sum(axis=1).max(), rel=1e-4)
    assert worst.accumulator_of == "sum"
    assert worst.headroom == pytest.approx(np.log2(65504 / worst.accumulator))
    assert overflowing.samples == 6


def test_the_most_endangered_come_first(overflowing: Audit) -> None:
    rooms = [min(found.headroom, found.footroom) for found in overflowing.activations]
    bad = [found.status == "overflows" for found in overflowing.activations]
    assert bad == sorted(bad, reverse=True)
    assert rooms[: sum(bad)] == sorted(rooms[: sum(bad)])
    assert of_layer(overflowing, "scale", "MUL").status == "fits"
    assert set(overflowing.dangers) == {f for f in overflowing.activations if f.headroom < 0}


def test_without_samples_it_says_that_it_knows_nothing_of_activations(
    models: ModuleType, look: Look
) -> None:
    result = look(open_source(models.destroyed_constants()))
    assert result.activations == ()
    assert (
        "no samples were run: which activations overflow or vanish is unknown"
        in (result.unknown[0])
    )
    assert result.constants[0].clamped > 0


def test_it_is_json_with_numbers_that_json_has(overflowing: Audit) -> None:
    document = json.loads(json.dumps(overflowing.to_dict(), allow_nan=False))
    assert document["schema"] == "tfmp.audit/1"
    first = document["activations"][0]
    assert first["layer"] == "norm"
    assert first["headroom"] == pytest.approx(overflowing.activations[0].headroom)
    assert first["footroom"] == "inf"


@pytest.fixture(scope="module")
def hidden(models: ModuleType, look: Look) -> tuple[np.ndarray, Audit]:
    x = (np.random.default_rng(4).normal(size=(1, 64)) * 300).astype(np.float32)
    return x.astype(np.float64), look(open_source(models.hidden_sums()), [{"x": x}])


def by_op(result: Audit, op: str) -> ActivationFinding:
    return next(found for found in result.activations if found.op == op)


def test_sums_inside_operators_are_measured(hidden: tuple[np.ndarray, Audit]) -> None:
    x, result = hidden
    expected = {
        "MEAN": ("sum", np.abs(np.cumsum(x)).max()),
        "SOFTMAX": ("sum of exponentials", np.exp(x - x.max()).sum()),
        "SUM": ("sum", (x**2).sum()),
        "L2_NORMALIZATION": ("sum of squares", (x**2).sum()),
    }
    for op, (what, value) in expected.items():
        found = by_op(result, op)
        assert found.accumulator_of == what
        assert found.accumulator == pytest.approx(value, rel=1e-5), op
    pool = by_op(result, "AVERAGE_POOL_2D")
    assert pool.accumulator == pytest.approx(16 * pool.peak)


def test_a_divisor_that_fp16_makes_zero_is_a_danger(hidden: tuple[np.ndarray, Audit]) -> None:
    x, result = hidden
    found = by_op(result, "DIV")
    assert found.status == "overflows"  # 1e9 is past FP16 even in float32
    assert found.operand == pytest.approx(1e-9 * (1 + np.abs(x).min()), rel=1e-3)
    assert found.footroom < -4


def test_loops_are_followed_step_by_step(convert: Callable, models: ModuleType) -> None:
    source, file = convert(models.spike_in_a_loop, precision="fp32")
    x = np.zeros((1, 6, 1), np.float32)
    x[0, 2] = 1e5
    meter = RangeMeter(file.path)
    meter.see({"x": x})
    in_loop = [seen for graph, _, seen in meter.ranges() if graph > 0]
    assert max(seen.peak for seen in in_loop) == 1e5
    assert abs(float(source.forward({"x": x})["state"][0, 0])) < 1


def test_values_that_are_not_finite_in_float32_are_told_apart(
    models: ModuleType, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the temporary file is gone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    x = np.full((1, 1024), np.nan, np.float32)
    result = look(open_source(models.variance_overflow()), [{"x": x}])
    assert result.activations[0].status == "non-finite"
    assert result.activations[0].nonfinite > 0
    assert list(tmp_path.iterdir()) == []


def test_samples_that_the_file_cannot_run_are_an_error_for_the_user(
    models: ModuleType, look: Look
) -> None:
    source = open_source(models.variance_overflow())
    with pytest.raises(ConversionError, match="'variance': its ranges cannot be measured"):
        look(source, [{"x": np.zeros((2, 2, 2, 2), np.float32)}])


def test_more_float32_weights_than_a_file_holds_are_refused_with_the_way_out(
    models: ModuleType,
) -> None:
    source = open_source(models.variance_overflow())
    huge = replace(source, variables=(SimpleNamespace(shape=(1 << 15, 1 << 14)),))
    with pytest.raises(ConversionError, match=r"2\.0 GiB of float32 weights; the audit") as error:
        audit_model(huge)
    assert "A conversion with --data measures the model itself" in str(error.value)


def test_an_onnx_graph_is_refused() -> None:
    graph = OnnxSource(Origin("graph", "onnx", None, ""), (), (), None, dict)
    with pytest.raises(InputError, match="'graph' is an ONNX graph"):
        audit_model(graph)


def test_a_fixed_batch_is_filled_up(convert: Callable, models: ModuleType) -> None:
    _, file = convert(models.variance_overflow, precision="fp32", batch_size=4)
    meter = RangeMeter(file.path)
    rows = np.random.default_rng(1).normal(size=(5, 1024)).astype(np.float32)
    meter.see({"x": rows})
    one = RangeMeter(convert(models.variance_overflow, precision="fp32")[1].path)
    one.see({"x": rows})
    peaks = [[seen.peak for _, _, seen in m.ranges()] for m in (meter, one)]
    np.testing.assert_allclose(peaks[0], peaks[1], rtol=1e-5)


def test_loops_that_collect_their_steps_are_followed(look: Look) -> None:
    layers = [keras.Input((5, 3)), keras.layers.SimpleRNN(2, return_sequences=True, name="steps")]
    source = open_source(keras.Sequential(layers))
    result = look(source, [{source.inputs[0].name: np.ones((2, 5, 3), np.float32)}])
    assert result.samples == 2


def test_a_mean_over_an_open_size_is_told_with_the_way_to_longer_samples(look: Look) -> None:
    x = keras.Input((None, 3), name="x")
    pooled = keras.layers.GlobalAveragePooling1D(name="pool")(keras.layers.Softmax()(x))
    told = look(open_source(keras.Model(x, pooled))).unknown[-1]
    assert told.startswith("open sizes reach a mean in MEAN ")
    assert "SOFTMAX" not in told
    assert told.endswith("--sizes x=1,SIZE,3")
