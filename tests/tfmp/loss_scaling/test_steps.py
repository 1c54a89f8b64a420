"""Steps: the method of the inner optimizer that applies the unscaled gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp import LossScaleOptimizer


class TenTimes(keras.optimizers.SGD):
    """An optimizer that changes gradients in the method that Keras calls on TensorFlow."""

    calls = 0

    def apply_gradients(self, grads_and_vars):
        self.calls += 1
        return super().apply_gradients([(grad * 10.0, v) for grad, v in grads_and_vars])


@pytest.mark.parametrize("enabled", [True, False])
def test_an_apply_gradients_of_the_inner_optimizers_own_is_called_once(enabled):
    inner, weight = TenTimes(0.5), keras.Variable([1.0])
    optimizer = LossScaleOptimizer(inner, loss_scale=8.0, enabled=enabled)
    scaled = optimizer.scale_loss(tf.constant([0.25]))  # the gradient, as if it were a loss
    optimizer.apply_gradients([(scaled, weight)])
    np.testing.assert_array_equal(weight, [1.0 - 0.5 * 2.5])
    assert (inner.calls, int(inner.iterations)) == (1, 1)


def test_fit_calls_it_and_skips_steps():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    x = np.ones((3, 1), "float32")
    x[1] = np.inf
    ends = []
    for wrap in (LossScaleOptimizer, lambda plain: plain):
        with strategy.scope():
            model = keras.Sequential(
                [
                    keras.Input((1,)),
                    keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"),
                ]
            )
            model.compile(wrap(TenTimes(0.001)), "mse")
        rows = x if wrap is LossScaleOptimizer else x[[0, 2]]
        model.fit(rows, np.zeros_like(rows), batch_size=1, shuffle=False, verbose=0)
        ends.append(model.get_weights()[0].item())
    assert ends[0] == pytest.approx(ends[1], rel=1e-6) == pytest.approx(0.98**2, rel=1e-6)
