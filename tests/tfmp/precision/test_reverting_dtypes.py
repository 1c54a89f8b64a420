"""Weights and moments change their dtype in place, and come back."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from stacks import stack

from tfmp import MixedPrecision, plan, revert

X = np.random.default_rng(0).standard_normal((16, 4)).astype("float32")
Y = X[:, :1]

PURE = ["float64", "bfloat16", "float16"]


def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    first = layers.Dense(8, kernel_regularizer="l2", activity_regularizer="l2")
    how = {"optimizer": keras.optimizers.Adam(1e-2), "loss": "mse", "metrics": ["mae"]}
    return stack(first, layers.BatchNormalization(), 1, **how)


def dtypes(variables) -> set[str]:
    return {v.dtype for v in variables if "float" in v.dtype}


@pytest.mark.parametrize("policy", PURE)
def test_weights_change_in_place_and_come_back(policy):
    net = model()
    objects, before = list(map(id, net.variables)), net.get_weights()
    plan(net, policy).apply()
    assert dtypes(net.weights) == {policy}
    assert {layer.compute_dtype for layer in net.layers} == {policy}
    assert net.predict(X, verbose=0).dtype == policy
    revert(net)
    assert dtypes(net.weights) == {"float32"}
    assert list(map(id, net.variables)) == objects
    for now, then in zip(net.get_weights(), before, strict=True):
        np.testing.assert_allclose(now, then, rtol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("policy", PURE[:2])
def test_a_training_goes_on_in_the_dtype_and_back(policy, tmp_path):
    net = model()
    net.fit(X, Y, verbose=0)
    callback = MixedPrecision(policy, loss_scale=1.0)
    history = net.fit(X, Y, epochs=2, verbose=0, callbacks=[callback])
    assert np.isfinite(history.history["loss"]).all()
    moments = getattr(net.optimizer, "inner_optimizer", net.optimizer)._momentums
    assert dtypes(moments) == {policy}
    assert int(net.optimizer.iterations) == 3
    net.save(tmp_path / "net.keras")
    loaded = keras.models.load_model(tmp_path / "net.keras")
    assert dtypes(loaded.weights) == {policy}
    loaded.fit(X, Y, verbose=0, callbacks=[MixedPrecision(policy)])
    net.save_weights(tmp_path / "net.weights.h5")
    net.load_weights(tmp_path / "net.weights.h5")
    revert(net)
    moments = net.optimizer._momentums
    assert dtypes(net.weights) == dtypes(moments) == {"float32"}
    net.fit(X, Y, verbose=0)


def test_mirrored_variables_are_refused():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        net = model()
    with pytest.raises(ValueError, match="variables on one device; those of model"):
        plan(net, "float16").apply()
    assert net.layers[0].compute_dtype == "float32"
    plan(net, "mixed_float16").apply()


@pytest.mark.parametrize("policy", PURE)
def test_penalties_in_another_dtype_are_added_to_a_float32_loss(policy):
    net = model()
    before = float(net.compute_loss(X, Y, net(X)))
    plan(net, policy).apply()
    loss = net.compute_loss(X, Y, net(X))
    assert loss.dtype == "float32"
    assert float(loss) == pytest.approx(before, rel=3e-2)
    revert(net)
    assert "_aggregate_additional_loss" not in vars(net)
