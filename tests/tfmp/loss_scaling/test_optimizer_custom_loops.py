"""The five steps by hand: forward, scale, backward, unscale, update; and gradients that underflow.

The same for JAX is in `tests/jax/test_custom_loops.py`.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp.loss_scaling.optimizer import DynamicLossScale, LossScaleOptimizer
from tfmp.loss_scaling.telemetry import read_counters

# The loss is this small, and its gradients with it: FP16 ends at 2**-24.
TINY = 2.0**-30


def model() -> keras.Model:
    """Mixed float16 but for its last layer, which does not learn."""
    keras.utils.set_random_seed(3)
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((4,)),
            layers.Dense(8, activation="tanh", dtype="mixed_float16"),
            layers.Dense(8, activation="tanh", dtype="mixed_float16"),
            layers.Dense(1, dtype="float32", trainable=False),
        ]
    )


def in_float32() -> keras.Model:
    net = model()
    for layer in net.layers:
        layer.dtype_policy = "float32"
    return net


def adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.03, epsilon=1e-15)  # the default 1e-7 would drown the gradients


def data() -> tuple[tf.Tensor, tf.Tensor]:
    x = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
    return tf.constant(x), tf.constant(np.sin(x.sum(axis=1, keepdims=True)))


def train(net: keras.Model, optimizer, steps: int = 150) -> list[float]:
    """A GradientTape loop; the losses, without the factor that makes them tiny."""
    x, y = data()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - net(x, training=True))) * TINY  # 1. forward
            scaled = optimizer.scale_loss(loss)  # 2. scale
        gradients = tape.gradient(scaled, net.trainable_variables)  # 3. backward
        optimizer.apply(gradients, net.trainable_variables)  # 4. unscale, 5. update
        return loss

    optimizer.build(net.trainable_variables)
    return [float(step()) / TINY for _ in range(steps)]


def test_gradients_that_underflow_stall_without_scaling_and_train_as_float32_with_it():
    in_full = train(in_float32(), adam())
    unscaled = train(model(), adam())
    optimizer = LossScaleOptimizer(adam(), DynamicLossScale(growth_interval=3))
    scaled = train(model(), optimizer)
    reached = in_full[0] / 20
    assert in_full[-1] < reached
    assert scaled[-1] < reached
    assert unscaled[-1] == unscaled[0]
    assert read_counters(optimizer).loss_scale > 2.0**20


def towards_sharper(change_of, loss_scale="dynamic"):
    """A step that moves the weight by its gradient before it takes the gradient to apply."""
    weight = keras.Variable([2.0], name="weight")
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.1), loss_scale)
    optimizer.build([weight])

    def gradient():
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(tf.reduce_sum(tf.square(weight.value)))
        return tape.gradient(scaled, weight.value)

    @tf.function
    def step():
        change = change_of(gradient())
        weight.assign_add(change)
        found = gradient()
        weight.assign_sub(change)
        optimizer.apply([found], [weight])

    step()
    return float(weight.value[0])


def unit(gradient):
    return gradient / tf.norm(gradient)


def finite_unit(gradient):
    return tf.where(tf.math.is_finite(tf.norm(gradient)), unit(gradient), 0.0)


def test_weights_that_a_step_moves_by_gradients_that_may_overflow_stop_it():
    with pytest.raises(ValueError, match=r"assigns weight by gradients .* before self.optimizer"):
        towards_sharper(unit)


@pytest.mark.parametrize(("change_of", "scale"), [(finite_unit, "dynamic"), (unit, 1.0)])
def test_weights_that_a_step_moves_with_care_are_left_to_it(change_of, scale):
    assert towards_sharper(change_of, scale) == pytest.approx(2.0 - 0.1 * 2 * 3.0)
