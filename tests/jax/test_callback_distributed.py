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
