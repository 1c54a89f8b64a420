"""Counters as read from the device, the error made of them, and the log files."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext

from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.strategies import DynamicLossScale
from tfmp.loss_scaling.telemetry import (
    NonFiniteGradientsError,
    Offender,
    StepCounters,
    TelemetryLog,
    read_counters,
    read_model_counters,
)


def after(history: str, **scale_options) -> LossScaleOptimizer:
    """An optimizer for variables a/kernel and a/bias after steps such as "+kb".

    + is finite; k, b and n are non-finite in the kernel, in the bias and in both.
    """
    with keras.name_scope("a"):
        targets = [keras.Variable([1.0], name="kernel"), keras.Variable([1.0], name="bias")]
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.1), DynamicLossScale(**scale_options))
    optimizer.build(targets)
    for verdict in history:
        scale = optimizer.scale_loss(tf.constant(1.0))
        kernel, bias = (np.nan if verdict in bad else 1.0 for bad in ("kn", "bn"))
        optimizer.apply([tf.constant([kernel]) * scale, tf.constant([bias]) * scale], targets)
    return optimizer


def test_counters_of_a_history():
    counters = read_counters(after("++kn+b+++", growth_interval=3))
    assert replace(counters, gradients=None) == StepCounters(
        loss_scale=2.0**13,
        steps=9,
        skipped_steps=3,
        consecutive_skips=0,
        growths=1,
        backoffs=3,
        offenders=(Offender("a/bias", 2, 2), Offender("a/kernel", 2, 1)),
    )


@pytest.mark.parametrize(
    ("history", "growth_interval", "consecutive"),
    # The streak is 0 after a growth as it is after a skip.
    [("kk+", 9, 0), ("kk+k", 9, 1), ("k+kkk", 9, 3), ("k+k", 1, 1)],
)
def test_runs_of_skips(history, growth_interval, consecutive):
    counters = read_counters(after(history, growth_interval=growth_interval))
    assert counters.consecutive_skips == consecutive


def test_an_optimizer_that_was_never_built_has_counted_nothing():
    one = read_counters(LossScaleOptimizer(keras.optimizers.SGD(), 64.0))
    assert (one.loss_scale, one.steps, one.offenders) == (64.0, 0, ())
    assert read_model_counters(keras.Sequential(), []) is None


def test_counters_need_one_transfer(monkeypatch):
    optimizer = after("+k")
    reads, original = [], keras.ops.convert_to_numpy
    monkeypatch.setattr(
        keras.ops, "convert_to_numpy", lambda value: reads.append(value) or original(value)
    )
    read_counters(optimizer)
    assert len(reads) == 1


def test_counters_of_another_optimizer_are_refused():
    with pytest.raises(TypeError, match=r"expects a tfmp\.LossScaleOptimizer, received .*SGD"):
        read_counters(keras.optimizers.SGD())


def test_the_curves_of_counters():
    counters = read_counters(after("++kn"))
    curves = "loss_scale skipped_steps consecutive_skips growths backoffs gradient_norm underflow"
    assert {*curves.split(), "headroom_bits"} <= set(counters.scalars())


def test_the_error_names_variable_scale_and_three_things_to_try():
    error = NonFiniteGradientsError(read_counters(after("+" + "n" * 16)), limit=15)
    text = str(error)
    assert "16 steps in a row had gradients that are not finite; max_consecutive_skips=15" in text
    assert "First gradient that was not finite, from the loss back: 'a/bias'" in text
    assert "Loss scale: 1 after 15 reductions; 16 of 17 steps skipped" in text
    assert "1. tfmp.locate_nonfinite(model, x, y)" in text
    assert "2. tfmp.MixedPrecision(keep_float32=...) with the layer it names, if it says" in text
    assert "3. A lower learning rate" in text
    assert error.limit == 15


def test_the_error_names_the_layer_of_a_known_cause():
    counters = read_counters(after("n" * 16))
    text = str(NonFiniteGradientsError(counters, 15, "The output of b is infinite.", "b"))
    assert "\n  Cause: The output of b is infinite.\nTry, in this order:" in text
    assert "2. tfmp.MixedPrecision(keep_float32=['b'])." in text


def test_json_lines_are_appended_and_never_hold_bare_nan(tmp_path):
    for step in (1, 2):
        log = TelemetryLog(tmp_path / "log")
        log.write(step, {"loss_scale": 8.0, "loss": float("nan")}, epoch=step)
        log.close()
    lines = (tmp_path / "log" / "tfmp.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 1, "epoch": 1, "loss_scale": 8.0, "loss": "nan"},
        {"step": 2, "epoch": 2, "loss_scale": 8.0, "loss": "nan"},
    ]


def test_tensorboards_own_page_finds_scalars(tmp_path):
    log = TelemetryLog(tmp_path)
    log.write(7, {"loss_scale": 8.0}, epoch=0)
    log.write(9, {"loss_scale": 4.0}, epoch=1)
    log.close()
    events = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    events.Reload()
    pages = data_provider.MultiplexerDataProvider(events, str(tmp_path))
    here = {"experiment_id": "", "downsample": 10}
    scalars = pages.read_scalars(RequestContext(), plugin_name="scalars", **here)["."]
    assert {tag: [(p.step, p.value) for p in points] for tag, points in scalars.items()} == {
        "tfmp/loss_scale": [(7, 8.0), (9, 4.0)]
    }
