"""Bad rows in the data: found in the first batch, explained, saved, and kept out of the loss."""

import json

import keras
import numpy as np
import probed_fits
import pytest
from keras import layers, ops
from probed_fits import EAGER
from stacks import stack

from tfmp import DynamicLossScale, MixedPrecision, revert
from tfmp.loss_scaling.telemetry import NonFiniteGradientsError


def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    return stack(8, 8, 1, optimizer=keras.optimizers.SGD(0.01), loss="mse", **EAGER)


def data(bad_rows=(), rows=32) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((rows, 4)).astype("float32")
    x[list(bad_rows)] = np.nan
    return x, x[:, :1].copy()


def fit(net, x, y, epochs=1, **options):
    callback = MixedPrecision(
        "mixed_float16", loss_scale=options.pop("scale", "dynamic"), **options
    )
    history = probed_fits.fit(net, callback, x, y, keras.callbacks.TerminateOnNaN(), epochs=epochs)
    return callback.report, history.history


def test_a_skipped_step_is_left_out_of_the_epochs_loss():
    net, (x, y) = model(), data(bad_rows=[12])
    exact = np.mean([net.evaluate(x[i : i + 8], y[i : i + 8], verbose=0) for i in (0, 16, 24)])
    net.optimizer.learning_rate = 0.0
    _, history = fit(net, x, y)
    assert history["skipped_steps"] == [1]
    assert history["loss"][0] == pytest.approx(exact, rel=1e-2)
    assert np.isnan(net.evaluate(x, y, verbose=0))  # validation hides nothing
    assert "train_step" not in vars(net)
    revert(net)


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_fit_without_a_step_says_so_unless_the_scale_falls(is_dynamic):
    (x, y), net = data(), model()
    scale = DynamicLossScale(2.0**120, max_scale=2.0**124) if is_dynamic else 2.0**120
    callback = MixedPrecision("mixed_float16", loss_scale=scale)
    history = net.fit(x[:16], y[:16], batch_size=16, verbose=0, callbacks=[callback])
    assert history.history["loss"][0] > 0  # it was finite
    assert callback.report.skipped_steps == (0 if is_dynamic else 1)
    if not is_dynamic:
        (finding,) = callback.report.findings
        assert finding.message == "No step of 1 was applied: no weight has changed"
        assert "Pass loss_scale='dynamic'" in finding.fix
        assert callback.report.verdict == "FAIL"


@pytest.mark.parametrize("epochs", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_a_fit_without_a_step_at_scale_1_names_the_layer_or_the_way_to_it(epochs):
    big = layers.Lambda(lambda x: ops.square(ops.cast(300 * x, "float16")), name="big")
    net = stack(big, 1, inputs=(8,), optimizer="sgd", loss="mse", **EAGER)
    callback = MixedPrecision("mixed_float16", loss_scale=1.0 if epochs == 1 else "dynamic")
    x = np.ones((16, 8), "float32")
    net.fit(x, x[:, :1], batch_size=8, epochs=epochs, verbose=0, callbacks=[callback])
    finding = callback.report.findings[-1]
    assert finding.message.startswith(f"No step of {2 * epochs} was applied: no weight has changed")
    if epochs == 1:
        assert finding.fix.startswith("A lower scale does not help. Look for the cause with a ba")
        return
    assert ". The output of layer big (Lambda) has " in finding.message
    assert finding.fix.startswith("Cast to float32 there")


def test_an_epoch_that_begins_with_bad_rows_has_the_loss_of_the_others():
    net, (x, y) = model(), data(bad_rows=[1])
    # R2Score is no mean, and makes its variables in its first update.
    net.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae", keras.metrics.R2Score()])
    exact = net.evaluate(x[8:], y[8:], verbose=0, return_dict=True)
    _, history = fit(net, x, y, scale=1.0)
    for name in ("loss", "mae", "r2_score"):
        assert history[name][0] == pytest.approx(exact[name], rel=1e-2)


@pytest.mark.slow
def test_a_fit_that_was_interrupted_leaves_no_wrapper_for_the_next():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyboardInterrupt

    net, (x, y) = model(), data(bad_rows=[12])
    with pytest.raises(KeyboardInterrupt):
        net.fit(x, y, batch_size=8, verbose=0, callbacks=[MixedPrecision("mixed_float16"), Stop()])
    fit(net, x, y)
    assert "train_step" not in vars(net)


def test_nan_in_the_first_batch_is_told():
    x, y = data()
    y[3] = np.nan
    report, _ = fit(model(), x, y)
    (finding,) = [one for one in report.findings if one.check == "data not finite"]
    assert finding.message.startswith("The data itself is not finite: y has 1 NaN")
    assert "the first is in row 3" in finding.message


@pytest.mark.slow
def test_one_bad_row_in_short_epochs_is_explained():
    scale = DynamicLossScale(initial=1024.0)
    report, history = fit(model(), *data(bad_rows=[31]), epochs=11, scale=scale)  # the last batch
    assert history["skipped_steps"] == [1] * 11
    (event,) = report.events
    assert "10 of 40 steps were not finite" in event.text
    assert "x has 4 NaN" in event.text


@pytest.mark.slow
def test_the_report_is_written_when_training_ends_and_when_it_is_stopped(tmp_path):
    fit(model(), *data(), epochs=2, report=tmp_path / "end.json")
    ended = json.loads((tmp_path / "end.json").read_text())
    assert len(ended["curves"]["loss"]) == 2
    assert ended["layers"][0]["path"] == "/"
    # Those of the repeated first step are none of them.
    with pytest.raises(NonFiniteGradientsError, match=r"(?s)4 steps in a row .* 4 of 4 st"):
        fit(
            model(),
            *data(bad_rows=[1, 9, 17, 25]),
            report=tmp_path / "stop.json",
            max_consecutive_skips=2,
        )
    stopped = json.loads((tmp_path / "stop.json").read_text())
    assert stopped["verdict"] == "FAIL"
    assert stopped["curves"]["loss"] == ["nan"]
