"""loss_dtype: losses in float64, and penalties of weights in other dtypes."""

import keras
import numpy as np
import pytest
from keras import layers

from tfmp import plan, revert

X = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")


def model(loss) -> keras.Model:
    inputs = keras.Input((4,))
    outputs = [layers.Dense(1, kernel_regularizer="l2", name=name)(inputs) for name in "ab"]
    net = keras.Model(inputs, outputs)
    net.compile("sgd", loss)
    return net


def loss_of(net) -> object:
    y = np.zeros((8, 1), "float32")
    return net.compute_loss(X, [y, y], net(X))


def test_losses_of_all_outputs_are_float64_until_revert():
    mine = keras.losses.MeanSquaredError()
    net = model([mine, "mae"])
    before = float(loss_of(net))
    plan(net, "float64").apply()
    loss = loss_of(net)
    assert keras.backend.standardize_dtype(loss.dtype) == "float64"
    assert float(loss) == pytest.approx(before, rel=1e-6)
    assert mine.dtype == "float64"
    revert(net)
    assert mine.dtype == net._compile_loss.dtype == "float32"
    assert keras.backend.standardize_dtype(loss_of(net).dtype) == "float32"
    assert "compute_loss" not in vars(net)


def test_penalties_of_16_bit_weights_are_added_to_a_float32_loss():
    net = model(["mse", "mse"])
    before = float(loss_of(net))
    plan(net, "bfloat16").apply()
    loss = loss_of(net)
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    assert float(loss) == pytest.approx(before, rel=3e-2)
