"""Loops by hand that move weights by scaled gradients before `apply`."""

import keras
import pytest
import tensorflow as tf

from tfmp.loss_scaling.optimizer import LossScaleOptimizer


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
