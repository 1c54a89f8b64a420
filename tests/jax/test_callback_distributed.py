"""MixedPrecision under Keras's data parallelism on two JAX devices."""

import keras
import keras_models
import numpy as np
import pytest

import tfmp


@pytest.fixture
def data_parallel():
    devices = keras.distribution.list_devices("cpu")
    assert len(devices) == 2
    keras.distribution.set_distribution(
        keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
    )
    yield
    keras.distribution.set_distribution(None)


@pytest.mark.slow
def test_a_nan_on_one_device_skips_the_step_on_both(data_parallel):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    x = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    x[3] = np.nan
    callback = tfmp.MixedPrecision("mixed_float16", loss_scale=tfmp.DynamicLossScale(initial=256.0))
    history = model.fit(
        x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=[callback]
    )
    assert history.history["skipped_steps"] == [1, 1]
    assert history.history["loss_scale"] == [128.0, 64.0]
    assert callback.report.steps == 8
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert model.layers[0].compute_dtype == "float16"


@pytest.mark.slow
def test_a_layer_that_overflows_on_one_device_is_found_and_moved(data_parallel):
    model = keras_models.overflowing_sums()
    model.compile(keras.optimizers.SGD(1e-6), "mse")
    x = np.ones((24, 8), "float32")
    x[[4, 12, 20]] = 2000.0
    callback = tfmp.MixedPrecision("mixed_float16", on_nonfinite="keep_float32", loss_scale=2.0)
    model.fit(
        x, np.ones((24, 1)), batch_size=8, epochs=3, shuffle=False, verbose=0, callbacks=[callback]
    )
    (event,) = callback.report.events
    assert "Moved to float32: sums." in event.text
    assert model.get_layer("first").compute_dtype == "float16"
    assert model.get_layer("sums").compute_dtype == "float32"
