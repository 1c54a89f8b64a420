"""The watch over the loss scale: lost gradients are seen, and harmless zeros are not."""

import json

import keras
import numpy as np
import pytest
from keras import layers, ops
from probed_fits import EAGER
from stacks import stack

from tfmp import DynamicLossScale, MixedPrecision, StaticLossScale
from tfmp.fit.scale_watch import underflow
from tfmp.nonfinite import LostGradient


def small_loss(truth, predicted):
    return ops.mean(ops.square(truth - predicted), axis=-1) * 1e-9


def model(loss=small_loss) -> keras.Model:
    keras.utils.set_random_seed(0)
    first, second = (layers.Dense(16, "tanh", name=name) for name in ("first", "second"))
    sgd = keras.optimizers.SGD(1e-3)
    return stack(first, second, 1, inputs=(8,), optimizer=sgd, loss=loss, **EAGER)


def fit(net, loss_scale, **options):
    x = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    callback = MixedPrecision("mixed_float16", loss_scale=loss_scale, **options)
    history = net.fit(x, y, batch_size=32, epochs=2, verbose=0, callbacks=[callback])
    return callback.report, history.history


def scale_findings(report) -> list[str]:
    return [str(finding) for finding in report.findings if finding.check == "underflow"]


@pytest.mark.slow
def test_bfloat16_loses_no_gradient_that_fp16_would(tmp_path):
    keras.utils.set_random_seed(0)
    relus = [layers.Dense(32, "relu"), layers.Dense(32, "relu")]  # zeros beside small values
    net = stack(*relus, 1, inputs=(8,), optimizer=keras.optimizers.Adam(1e-2), loss=small_loss)
    callback = MixedPrecision("mixed_bfloat16", log_dir=tmp_path)
    x = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
    history = net.fit(x, x[:, :1], verbose=0, callbacks=[callback]).history
    assert history["underflow"] == [0.0]
    assert all(row.underflow == 0.0 for row in callback.report.gradients.variables)
    assert "gradients: norm" in str(callback.report)
    assert "65504" not in str(callback.report)
    assert "65504" not in callback.report._repr_html_()
    (record,) = map(json.loads, (tmp_path / "tfmp.jsonl").read_text().splitlines())
    assert record["underflow"] == 0.0
    assert "headroom_bits" not in record


def test_a_loss_that_fp16_loses_is_found_and_the_advice_helps(tmp_path):
    net = model()
    before = net.get_layer("first").get_weights()[0].copy()
    report, history = fit(net, 1.0, log_dir=tmp_path)
    assert (net.get_layer("first").get_weights()[0] == before).all()
    (text,) = scale_findings(report)
    assert "At loss scale 1, 96% of the gradient values of the first batch are 0 in FP16" in text
    assert "Raise the scale to 2^" in text
    assert history["underflow"][-1] > 0.9
    assert "underflow 9" in str(report)
    lines = [json.loads(line) for line in (tmp_path / "tfmp.jsonl").read_text().splitlines()]
    assert lines[-1]["underflow"] == history["underflow"][-1]
    assert {"gradient_norm", "headroom_bits"} <= set(lines[-1])

    scale = 2.0 ** float(text.split("2.0**")[1].rstrip("."))
    net = model()
    net.optimizer.learning_rate = 1e6
    report, history = fit(net, scale)
    assert not scale_findings(report)
    assert history["underflow"][-1] < 0.1
    assert (net.get_layer("first").get_weights()[0] != before).any()


# --- the judgement ---


def lost(*shares, largest=2.0**-10) -> list[LostGradient]:
    return [LostGradient(f"v{place}", 10, share, largest) for place, share in enumerate(shares)]


@pytest.mark.parametrize(
    ("rows", "scale", "expected"),
    [
        (lost(0.9, 0.0), 1.0, "Raise the scale to 2^22: loss_scale=2.0**22"),
        (lost(0.4, 0.0), 1.0, "Raise the scale to 2^22: loss_scale=2.0**22"),
        (lost(0.01, 0.1), 1.0, None),  # a few of the smallest
        (lost(0.9, 0.0, largest=2.0**13), 1.0, None),  # no scale holds both ends
        (lost(), 1.0, None),
    ],
)
def test_underflow(rows, scale, expected):
    found = underflow(rows, "the first batch", scale, StaticLossScale(scale))
    assert (found and found.fix) == expected


def test_a_dynamic_scale_is_told_to_start_higher_with_room_to_grow():
    rows = lost(1.0, largest=2.0**-13)
    found = underflow(rows, "the first batch", 2.0**15, DynamicLossScale())
    assert found.fix.endswith("tfmp.DynamicLossScale(initial=2.0**40, max_scale=2.0**48)")


def clipped(x):
    @ops.custom_gradient
    def passed_on(x):
        def grad(*args, upstream=None):
            (upstream,) = args if upstream is None else (upstream,)
            return ops.clip(upstream, -1.0, 1.0)

        return x, grad

    return passed_on(x)


@pytest.mark.slow
def test_gradients_that_own_code_clips_train_without_a_loss_scale():
    def trained(callbacks):
        keras.utils.set_random_seed(0)
        first = layers.Dense(16, "relu", name="first")
        behind = [layers.Lambda(clipped), layers.Dense(8), layers.Dense(1)]
        sgd = keras.optimizers.SGD(0.05)
        net = stack(first, *behind, inputs=(8,), optimizer=sgd, loss="mse")
        x = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
        y = x.sum(axis=1, keepdims=True)
        fit = net.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
        return fit.history["loss"][-1]

    callback = MixedPrecision("mixed_float16")
    mixed, exact = trained([callback]), trained([])
    found = [str(f) for f in callback.report.findings if "cannot be scaled" in f.check]
    assert "The gradients of lambda" in found[0]
    assert callback.report.loss_scales[-1].loss_scale == 1.0
    assert mixed == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_frozen_base_loses_no_gradient(frozen):
    keras.utils.set_random_seed(0)
    dense = [layers.Dense(16, activation="relu") for _ in range(4)]
    base = keras.Sequential([layers.Input((16,)), *dense, layers.Lambda(lambda x: x * 1e-3)])
    base.trainable = not frozen
    net = keras.Sequential([layers.Input((16,)), base, layers.Dense(3, activation="softmax")])
    loss = keras.losses.sparse_categorical_crossentropy
    net.compile(keras.optimizers.SGD(1e-3), lambda y, z: 1e-6 * loss(y, z), **EAGER)
    x = np.random.default_rng(0).standard_normal((64, 16)).astype("float32")
    callback = MixedPrecision("mixed_float16")
    net.fit(x, np.arange(64) % 3, epochs=2, verbose=0, callbacks=[callback])
    assert bool(scale_findings(callback.report)) is not frozen
