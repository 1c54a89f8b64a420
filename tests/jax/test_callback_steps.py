"""MixedPrecision with a `train_step` of the user's own, as JAX wants it."""

import jax
import keras
import numpy as np
import pytest
from keras import ops

import tfmp


class Own(keras.Sequential):
    """Scales its loss with the values of its scale, without them, or not at all."""

    scales = "with"

    def train_step(self, state, data):
        weights, rest, own, metrics = state
        x, y = data

        def scaled(loss):
            if self.scales == "with":
                mapping = zip(self.optimizer.variables, own, strict=True)
                with keras.StatelessScope(state_mapping=mapping):
                    return self.optimizer.scale_loss(loss)
            return self.optimizer.scale_loss(loss) if self.scales == "without" else loss

        def loss_of(weights, rest):
            predicted, rest = self.stateless_call(weights, rest, x, training=True)
            loss = ops.mean(ops.square(y - predicted))
            return scaled(loss), (loss, rest)

        value_and_grad = jax.value_and_grad(loss_of, has_aux=True)
        (_, (loss, rest)), gradients = value_and_grad(weights, rest)
        weights, own = self.optimizer.stateless_apply(own, gradients, weights)
        return {"loss": loss}, (weights, rest, own, metrics)


@pytest.mark.slow
def test_a_step_that_does_not_scale_is_traced_anew_without_a_scale():
    weights = []
    x = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
    for callbacks in ([], [tfmp.MixedPrecision("mixed_float16", tfmp.DynamicLossScale(4.0, 2))]):
        keras.utils.set_random_seed(0)
        layers = keras.layers
        net = Own([layers.Input((4,)), layers.Dense(8, "tanh"), layers.Dense(1)])
        net.scales = "not at all"
        net.compile(keras.optimizers.SGD(0.01))
        history = net.fit(
            x, x[:, :1], batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=callbacks
        )
        weights.append(net.get_weights())
    assert history.history["loss_scale"] == [1.0, 1.0]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=0.01)


def test_a_step_that_scales_without_the_values_of_the_scale_is_told_how_to():
    x = np.random.default_rng(0).standard_normal((16, 4)).astype("float32")
    for scales in ("with", "without"):
        net = Own([keras.layers.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
        net.scales = scales
        net.compile("sgd")
        callback = tfmp.MixedPrecision("mixed_float16")
        if scales == "with":
            net.fit(x, x[:, :1], verbose=0, callbacks=[callback])
            assert callback.report.loss_scales[-1].loss_scale > 1.0
            continue
        with pytest.raises(ValueError, match=r"with keras\.StatelessScope\(state_mapping=zip"):
            net.fit(x, x[:, :1], verbose=0, callbacks=[callback])
