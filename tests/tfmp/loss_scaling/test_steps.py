"""Steps: the method of the inner optimizer that applies the unscaled gradients."""

import keras
import numpy as np
import tensorflow as tf

from tfmp import LossScaleOptimizer


class TenTimes(keras.optimizers.SGD):
    """An optimizer that changes gradients in the method that Keras calls on TensorFlow."""

    calls = 0

    def apply_gradients(self, grads_and_vars):
        self.calls += 1
        return super().apply_gradients([(grad * 10.0, v) for grad, v in grads_and_vars])


def test_an_apply_gradients_of_the_inner_optimizers_own_is_called_once():
    inner, weight = TenTimes(0.5), keras.Variable([1.0])
    optimizer = LossScaleOptimizer(inner, loss_scale=8.0)
    scaled = optimizer.scale_loss(tf.constant([0.25]))  # the gradient, as if it were a loss
    optimizer.apply_gradients([(scaled, weight)])
    np.testing.assert_array_equal(weight, [1.0 - 0.5 * 2.5])
    assert (inner.calls, int(inner.iterations)) == (1, 1)
