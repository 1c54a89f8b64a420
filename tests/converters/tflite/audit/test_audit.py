"""The audit: ranges, hidden sums and divisors, set against what FP16 can hold."""

import json
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters import open_source
from tfmp.converters.intake.source import OnnxSource, Origin
from tfmp.converters.shared.errors import InputError
from tfmp.converters.tflite.audit.audit import ActivationFinding, Audit, audit_model


@pytest.fixture(scope="module")
def overflowing(models: ModuleType) -> Audit:
    rows = np.random.default_rng(0).normal(size=(6, 1024)).astype(np.float32)
    return audit_model(open_source(models.variance_overflow()), [{"x": rows[:4]}, {"x": rows[4:]}])


def test_the_variance_is_found_with_its_layer_its_peak_and_its_sum(overflowing: Audit) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 1024)).astype(np.float32).astype(float)
    squares = (300 * (rows - rows.mean(axis=1, keepdims=True))) ** 2
    worst = overflowing.activations[0]
    assert (worst.layer, worst.op, worst.status) == ("norm", "Mean", "overflows")
    assert worst.peak == pytest.approx(squares.mean(axis=1).max(), rel=1e-4)
    assert worst.accumulator == pytest.approx(squares.sum(axis=1).max(), rel=1e-4)
    assert worst.accumulator_of == "sum"
    assert worst.headroom == pytest.approx(np.log2(65504 / worst.accumulator))
    assert overflowing.samples == 6


def test_without_samples_it_says_that_it_knows_nothing_of_activations(models: ModuleType) -> None:
    result = audit_model(open_source(models.destroyed_constants()))
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
def hidden(models: ModuleType) -> tuple[np.ndarray, Audit]:
    x = (np.random.default_rng(4).normal(size=(1, 64)) * 300).astype(np.float32)
    return x.astype(np.float64), audit_model(open_source(models.hidden_sums()), [{"x": x}])


def by_op(result: Audit, op: str) -> ActivationFinding:
    return next(found for found in result.activations if found.op == op)


def test_sums_inside_operations_are_measured(hidden: tuple[np.ndarray, Audit]) -> None:
    x, result = hidden
    for op, value in {"Mean": np.abs(x).sum(), "Sum": (x**2).sum()}.items():
        found = by_op(result, op)
        assert found.accumulator_of == "sum"
        assert found.accumulator == pytest.approx(value, rel=1e-5), op


def test_a_divisor_that_fp16_makes_zero_is_a_danger(hidden: tuple[np.ndarray, Audit]) -> None:
    x, result = hidden
    found = by_op(result, "RealDiv")
    assert found.status == "overflows"  # 1e9 is past FP16 even in float32
    assert found.operand == pytest.approx(1e-9 * (1 + np.abs(x).min()), rel=1e-3)
    assert found.footroom < -4


def test_samples_that_the_model_cannot_run_are_an_error_for_the_user(models: ModuleType) -> None:
    source = open_source(models.variance_overflow())
    with pytest.raises(InputError, match="'variance' cannot run on these samples"):
        audit_model(source, [{"x": np.zeros((2, 2, 2, 2), np.float32)}])


def test_an_onnx_graph_is_refused() -> None:
    graph = OnnxSource(Origin("graph", "onnx", None, ""), (), (), None, dict)
    with pytest.raises(InputError, match="'graph' is an ONNX graph"):
        audit_model(graph)


def test_tables_that_are_read_row_by_row_are_constants(tmp_path: Path) -> None:
    module = tf.Module()
    module.table = tf.Variable(np.full((5, 4), 1e9, np.float32), name="table")
    module.__call__ = tf.function(
        lambda ids: tf.nn.embedding_lookup(module.table, ids),
        input_signature=[tf.TensorSpec((None,), tf.int32)],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.__call__)
    (found,) = audit_model(open_source(tmp_path)).constants
    assert found.clamped == 20


def test_what_samples_do_not_show_is_unknown() -> None:
    layers = [keras.Input((None, 3)), keras.layers.SimpleRNN(2, name="steps")]
    source = open_source(keras.Sequential(layers))
    result = audit_model(source, [{source.inputs[0].name: np.ones((2, 5, 3), np.float32)}])
    assert result.samples == 2
    assert any("inside loops" in one for one in result.unknown)
    assert any("larger sizes than these samples have" in one for one in result.unknown)


def test_a_weight_is_one_constant_however_often_it_is_read() -> None:
    x = keras.Input((5, 8))
    shared = keras.layers.Dense(8, kernel_initializer=keras.initializers.Constant(1e9))
    loop = keras.layers.GRU(2, kernel_initializer=keras.initializers.Constant(1e9))
    audit = audit_model(open_source(keras.Model(x, loop(shared(x) + shared(2 * x)))))
    assert sorted(found.clamped for found in audit.constants) == [48, 64]
