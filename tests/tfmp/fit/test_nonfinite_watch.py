"""The watch: what counts as non-finite beyond repair by the scale, and what is done about it."""

import keras
import keras_models
import numpy as np
import pytest
from keras import layers, ops
from own_layer import OwnModel
from probed_fits import EAGER
from stacks import stack

from tfmp import (
    DynamicLossScale,
    MixedPrecision,
    ScheduledLossScale,
    StaticLossScale,
    locate_nonfinite,
    plan,
    revert,
)
from tfmp.fit.nonfinite_watch import beyond_backoff
from tfmp.loss_scaling.telemetry import NonFiniteGradientsError, StepCounters

# --- what counts ---

FIXED = (StaticLossScale(64.0), ScheduledLossScale({0: 64.0}))


def seen(steps, skipped, scale=2.0**15, backoffs=None) -> StepCounters:
    backoffs = skipped if backoffs is None else backoffs
    return StepCounters(scale, steps, skipped, backoffs=backoffs)


@pytest.mark.parametrize(
    ("counters", "run", "strategy", "reason"),
    [
        (seen(50, 5), 0, DynamicLossScale(), None),  # finding its place
        (seen(50, 5, scale=1.0), 0, DynamicLossScale(), None),  # there now
        (seen(9, 9), 9, DynamicLossScale(), None),
        (
            seen(12, 12, scale=8.0),
            12,
            DynamicLossScale(),
            "12 steps in a row were not finite, down to loss scale 8",
        ),
        (
            seen(40, 1, scale=1.0, backoffs=0),
            0,
            DynamicLossScale(),
            "steps were not finite even at the lowest loss scale, 1",
        ),
        (seen(100, 12), 0, DynamicLossScale(), "12 of 100 steps were not finite"),
        (seen(1000, 12), 0, DynamicLossScale(), None),
        *(
            (seen(50, 1, 64.0), 0, fixed, "1 of 50 steps were not finite at loss scale 64")
            for fixed in FIXED
        ),
        (seen(50, 0), 0, FIXED[0], None),
    ],
)
def test_what_is_beyond_backing_off(counters, run, strategy, reason):
    assert beyond_backoff(counters, run, strategy) == reason


# --- what is done ---


def overflowing_model() -> keras.Model:
    """Its second layer's sums pass 65504 while its inputs and the next layer's outputs fit."""
    model = keras_models.overflowing_sums()
    model.compile(keras.optimizers.SGD(1e-6), "mse", **EAGER)
    return model


def data(value=2000.0):
    """Rows of which those of the first batch overflow nothing: it would move the layer."""
    x = np.full((96, 8), value, "float32") * np.linspace(0.9, 1.0, 8, dtype="float32")
    x[:8] *= 1e-4
    return x, np.ones((96, 1), "float32")


def fit(model, x, y, mode, loss_scale=DynamicLossScale(initial=2.0), **options):  # noqa: B008
    callback = MixedPrecision("mixed_float16", loss_scale, on_nonfinite=mode, **options)
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0, callbacks=[callback])
    return callback


def test_keep_float32_moves_the_layer_that_overflows_and_goes_on():
    model = overflowing_model()
    report = fit(model, *data(), "keep_float32").report
    computes_in = {layer.name: layer.compute_dtype for layer in model.layers}
    assert computes_in["sums"] == "float32"
    assert computes_in["first"] == "float16"
    assert any(
        event.text.startswith("steps were not finite even at the lowest")
        and "Moved to float32: sums." in event.text
        for event in report.events
    )
    assert report.skipped_steps < report.steps
    assert np.isfinite(model.predict(data()[0], verbose=0)).all()


@pytest.mark.slow
def test_what_was_moved_stays_moved_in_the_next_fit_until_revert():
    model = overflowing_model()
    fit(model, *data(), "keep_float32")
    second = fit(model, *data(), "raise")
    reasons = {row.path: row.reason for row in second.plan.rows}
    assert reasons["sums"] == "needed float32 in earlier training"
    revert(model)
    reasons = {row.path: row.reason for row in plan(model, "mixed_float16").rows}
    assert reasons["sums"] == "base policy"


def test_raise_stops_with_the_cause():
    model = overflowing_model()
    with pytest.raises(NonFiniteGradientsError) as caught:
        fit(model, *data(), "raise")
    text = str(caught.value)
    assert "steps were not finite even at the lowest loss scale, 1" in text
    assert "layer sums (Dense)" in text
    assert "float16" in text
    assert "tfmp.MixedPrecision(keep_float32=['sums'])" in text
    assert caught.value.counters.skipped_steps > 0


def test_report_writes_the_cause_down_and_goes_on():
    model = overflowing_model()
    report = fit(model, *data(), "report").report
    assert (report.steps, report.skipped_steps) == (12, 11)
    (event,) = report.events
    assert "layer sums (Dense)" in event.text
    assert model.get_layer("sums").compute_dtype == "float16"


def test_the_first_batch_moves_the_layer_that_overflows_on_it():
    model = overflowing_model()
    x, y = data()
    report = fit(model, x[8:], y[8:], "report").report
    assert (report.steps, report.skipped_steps) == (11, 0)
    (event,) = report.events
    assert event.text.startswith("The first step was not finite. The output of layer sums (Dense)")
    assert event.text.endswith("Moved to float32: sums.")


def test_data_that_is_not_finite_moves_no_layer():
    model = overflowing_model()
    x, y = data(value=0.1)
    x[:, 3] = np.nan
    report = fit(model, x, y, "keep_float32").report
    assert {layer.compute_dtype for layer in model.layers[:3]} == {"float16"}
    assert "The data itself is not finite: x has 8 NaN of 64 values" in report.events[0].text


@pytest.mark.slow
def test_the_limit_holds_when_the_cause_is_known_and_names_it():
    model = overflowing_model()
    with pytest.raises(NonFiniteGradientsError, match="max_consecutive_skips=4") as caught:
        fit(model, *data(), "report", max_consecutive_skips=4)
    assert "Cause: The output of layer sums (Dense)" in str(caught.value)
    assert "2. tfmp.MixedPrecision(keep_float32=['sums'])" in str(caught.value)


def test_a_search_that_finds_no_batch_again_is_given_up():
    model = overflowing_model()
    x, y = data(value=0.1)
    x[:8] = np.nan  # the first batch of each epoch, at a static scale
    report = fit(model, x[:32], y[:32], "report", loss_scale=8.0).report
    assert report.events[0].text == (
        "1 of 4 steps were not finite at loss scale 8. Training ended before it happened again."
    )


# --- a scale whose usual bound is too high ---


def large_loss(factor=1e8):
    def loss(y, p):
        return factor * ops.mean(ops.square(y - p), -1)

    return stack(layers.Dense(8, "relu"), 1, inputs=(8,), optimizer="adam", loss=loss, **EAGER)


def rows(count):
    x = np.random.default_rng(0).standard_normal((count, 8)).astype("float32")
    return x, x[:, :1].copy()


def test_a_large_loss_trains_below_a_scale_of_1_from_the_first_step_on():
    net, (x, y) = large_loss(), rows(256)
    callback = MixedPrecision("mixed_float16", on_nonfinite="raise")
    net.fit(x, y, batch_size=8, verbose=0, callbacks=[callback])  # one epoch of 32 steps
    assert callback.report.skipped_steps <= 2  # weights differ by backend
    assert callback.report.loss_scales[-1].loss_scale < 1
    (event,) = callback.report.events
    assert event.step == 1
    assert "The loss scale of 1 is too high" in event.text
    assert event.text.endswith(", and may fall lower.")
    assert net.get_layer(index=0).compute_dtype == "float16"
    # The next fit keeps the scale and counts on.
    net.fit(x, y, batch_size=32, verbose=0, callbacks=[callback])
    assert (callback.report.skipped_steps, callback.report.steps) == (0, 8)
    assert callback.report.loss_scales[-1].loss_scale < 1
    revert(net)


@pytest.mark.slow
def test_one_row_that_only_a_low_scale_serves_does_not_lower_it():
    net, (x, y) = large_loss(1.0), rows(64)
    y[3] = 1e7
    callback = MixedPrecision("mixed_float16", DynamicLossScale(initial=1.0))
    net.fit(x, y, batch_size=8, epochs=4, verbose=0, callbacks=[callback], shuffle=False)
    assert callback.report.skipped_steps == 4
    assert callback.report.loss_scales[-1].loss_scale == 1
    revert(net)


@pytest.mark.slow
def test_a_bound_of_the_users_own_holds():
    net, (x, y) = large_loss(), rows(512)
    callback = MixedPrecision("mixed_float16", DynamicLossScale(min_scale=2.0))
    with pytest.raises(NonFiniteGradientsError) as error:
        net.fit(x, y, batch_size=8, verbose=0, callbacks=[callback])
    assert "The loss scale of 2 is too high" in str(error.value)


def test_a_first_step_that_was_finite_does_not_hold_the_early_look_back():
    net = stack(8, 1, inputs=(8,), optimizer=keras.optimizers.SGD(1e-12), loss="mse", **EAGER)
    x = np.random.default_rng(0).standard_normal((4 * 32, 8)).astype("float32")
    y = np.full((len(x), 1), 1e7, "float32")
    x[:4] = y[:4] = 0.0  # whatever the weights are
    callback = MixedPrecision("mixed_float16")
    net.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[callback])
    assert callback.report.skipped_steps < 24
    assert "even at the lowest loss scale, 1" in callback.report.events[0].text


def test_steps_that_overflow_from_one_on_are_explained_within_the_epoch(capsys):
    hot = layers.Dense(8, name="hot")
    net = stack(hot, 1, inputs=(8,), optimizer="sgd", loss="mse", **EAGER)
    x, _ = rows(4 * 40)
    x[4 * 4 :] *= 1e6  # overflow in FP16 from the fifth batch on
    callback = MixedPrecision("mixed_float16")
    seen = []
    see = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(capsys.readouterr().out)
    )
    net.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=2, callbacks=[callback, see])
    (event,) = callback.report.events
    assert event.step == 19
    first = callback.report.first_loss_scale  # lower where the first step was repeated
    assert f"  loss scale {first:g} to 1\n" in str(callback.report)
    assert callback.report.loss_scales[-1].gradient_step == callback.report.gradients.step + 1
    assert f"tfmp: {event.text}\n" in seen[19]
    assert "keep_float32=['hot']" in event.text


def steep(own, x):
    """Casts to float32, where it multiplies the gradients of rows of zeros by 1e8."""
    hidden = ops.cast(own.second(own.first(x)), "float32")
    size = ops.sqrt(ops.sum(hidden * hidden, -1, keepdims=True) + 1e-16)
    return own.out(own.third(hidden / size))


def test_keep_float32_moves_all_layers_that_large_gradients_reach():
    first = layers.Dense(8, use_bias=False, activation="tanh", name="first")
    second = layers.Dense(8, use_bias=False, name="second")
    third = layers.Dense(8, activation="tanh", name="third")
    model = OwnModel(steep, first=first, second=second, third=third, out=1)
    model(np.zeros((1, 4), "float32"))
    model.compile("sgd", "mse", **EAGER)
    x = np.random.default_rng(0).standard_normal((160, 4)).astype("float32")
    x[::4] = 0.0
    keep = {"float16": ["first", "second"]}  # the plan itself would not
    callback = MixedPrecision("mixed_float16", on_nonfinite="keep_float32", keep=keep)
    model.fit(x, np.full((160, 1), 0.5), batch_size=8, verbose=0, callbacks=[callback])
    assert [model.first.compute_dtype, model.second.compute_dtype] == ["float32"] * 2
    assert model.third.compute_dtype == "float16"
    note = str(callback.report)
    assert "passes back to layer second (Dense)" in note
    assert "Code in float32 computes it, and it exceeds 65504 even at a loss scale of 1" in note
    assert "Moved to float32: second, first." in note
    assert callback.report.skipped_steps < 20


def test_gradients_that_are_large_from_the_loss_on_are_no_reason_to_move_a_layer():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(8), layers.Dense(1)])
    plan(model, "mixed_float16").apply()
    model.compile("sgd", "mse", jit_compile=False)
    found = locate_nonfinite(model, np.ones((8, 4)), np.full((8, 1), 1e7), loss_scale=1.0)
    assert (found.cause, found.is_steep) == ("loss scale", False)
    assert found.finite_at < 1
