"""A model that is frozen, in part between two `fit`s or as a whole."""

import keras
import numpy as np
import pytest
from stacks import stack

from tfmp import MixedPrecision

X = np.random.default_rng(0).standard_normal((32, 8)).astype("float32")
Y = (X.sum(axis=1, keepdims=True) * 0.1).astype("float32")


def compiled() -> keras.Model:
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense
    first, second = dense(16, name="first"), dense(16, name="second")
    return stack(first, second, 1, inputs=(8,), optimizer=keras.optimizers.Adam(0.01), loss="mse")


def fit(model: keras.Model) -> list[float]:
    callback = MixedPrecision("mixed_float16")
    return model.fit(X, Y, verbose=0, callbacks=[callback]).history["loss"]


def kernel(model: keras.Model, name: str) -> np.ndarray:
    return np.array(model.get_layer(name).get_weights()[0])


def test_freezing_without_compile_holds_from_the_next_fit_on():
    model = compiled()
    fit(model)
    before, other = kernel(model, "first"), kernel(model, "second")
    model.get_layer("first").trainable = False
    if keras.backend.backend() == "jax":  # its steps get the trainable weights as one list
        with pytest.raises(ValueError, match="After adding, freezing or unfreezing layers, comp"):
            fit(model)
        return
    fit(model)
    np.testing.assert_array_equal(kernel(model, "first"), before)
    assert not np.array_equal(kernel(model, "second"), other)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights")
def test_a_model_that_is_frozen_as_a_whole_fits_as_in_float32():
    inputs = keras.Input((8,))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(8)(inputs)))
    model.trainable = False
    model.compile("adam", "mse")
    expected = model.fit(X, Y, verbose=0).history["loss"]
    assert fit(model) == pytest.approx(expected, rel=1e-2)
