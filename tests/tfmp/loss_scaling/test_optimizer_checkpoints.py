"""The optimizer's state survives every way that Keras and TensorFlow save it."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from probed_fits import EAGER
from stacks import stack

from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.strategies import DynamicLossScale, StaticLossScale

STRATEGY = DynamicLossScale(initial=2.0**12, growth_interval=5)


def wrapped() -> LossScaleOptimizer:
    return LossScaleOptimizer(keras.optimizers.Adam(0.05), STRATEGY)


def model(optimizer, built: bool = False) -> keras.Model:
    keras.utils.set_random_seed(5)
    net = stack(keras.layers.Dense(6, "tanh"), 1, optimizer=optimizer, loss="mse", **EAGER)
    if built:
        net.optimizer.build(net.trainable_variables)
    return net


def data() -> tuple[np.ndarray, np.ndarray]:
    """Eight batches of 8, the fourth of them poisoned."""
    x = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    x[30] = np.nan
    return x, y


def train(net: keras.Model, epochs: int = 1, **options) -> keras.Model:
    net.fit(*data(), batch_size=8, shuffle=False, verbose=0, epochs=epochs, **options)
    return net


def state(net: keras.Model) -> list[list]:
    return [v.numpy().tolist() for v in (*net.variables, *net.optimizer.variables)]


@pytest.fixture(scope="module")
def uninterrupted() -> list[list]:
    return state(train(model(wrapped()), epochs=2))


@pytest.fixture(scope="module")
def halfway() -> keras.Model:
    return train(model(wrapped()))


def test_keras_file(halfway, uninterrupted, tmp_path):
    halfway.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert isinstance(loaded.optimizer, LossScaleOptimizer)
    assert loaded.optimizer.loss_scale == STRATEGY
    assert state(loaded) == state(halfway)
    assert state(train(loaded)) == uninterrupted


def test_tensorflow_checkpoint(halfway, uninterrupted, tmp_path):
    path = tf.train.Checkpoint(model=halfway, optimizer=halfway.optimizer).save(tmp_path / "c")
    loaded = model(wrapped(), built=True)
    tf.train.Checkpoint(model=loaded, optimizer=loaded.optimizer).restore(path).assert_consumed()
    assert state(train(loaded)) == uninterrupted


def test_a_weights_file_of_keras_own_wrapper_is_taken_over(tmp_path):
    theirs = train(model(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.05), 2.0**12)))
    theirs.optimizer.dynamic_scale.assign(0.0)
    theirs.save_weights(tmp_path / "m.weights.h5")
    ours = model(wrapped(), built=True)
    ours.load_weights(tmp_path / "m.weights.h5")
    assert float(ours.optimizer.dynamic_scale) == STRATEGY.min_scale  # 0 would never recover
    assert int(ours.optimizer.iterations) == int(theirs.optimizer.iterations)
    moments = [
        [v.numpy().tolist() for v in net.optimizer.inner_optimizer.variables]
        for net in (ours, theirs)
    ]
    assert moments[0] == moments[1]


def test_a_weights_file_of_the_bare_optimizer_is_taken_over(tmp_path):
    bare = model(keras.optimizers.Adam(0.05))
    bare.fit(*(part[:24] for part in data()), batch_size=8, verbose=0)
    bare.save_weights(tmp_path / "m.weights.h5")
    ours = model(wrapped(), built=True)
    with warnings.catch_warnings():
        # Keras then looks for the inner optimizer below the wrapper, where such a file has nothing.
        warnings.filterwarnings("ignore", "Skipping variable loading", UserWarning)
        ours.load_weights(tmp_path / "m.weights.h5")
    assert int(ours.optimizer.iterations) == 3
    assert float(ours.optimizer.dynamic_scale) == STRATEGY.initial


def test_a_static_scale_is_not_overruled_by_the_checkpoint(halfway, tmp_path):
    halfway.save_weights(tmp_path / "m.weights.h5")
    ours = model(LossScaleOptimizer(keras.optimizers.Adam(), StaticLossScale(8.0)), built=True)
    ours.load_weights(tmp_path / "m.weights.h5")
    assert float(ours.optimizer.dynamic_scale) == 8.0
