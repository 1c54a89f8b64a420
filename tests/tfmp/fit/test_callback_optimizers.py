"""Models that hold several optimizers: each scales its own loss, and mix-ups stop the training."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from stacks import stack

import tfmp
from tfmp import MixedPrecision
from tfmp.fit.preflight import UNSCALED_STEP
from tfmp.loss_scaling import read_counters

ROWS = 32


def mlp(inputs: int, outputs: int, name: str) -> keras.Model:
    return stack(layers.Dense(8, "relu"), outputs, inputs=(inputs,), name=name)


class Parts(keras.Model):
    """The shape of most published GANs: two models, two optimizers, and none from `compile`."""

    def __init__(self):
        super().__init__()
        self.critic = mlp(4, 1, "critic")
        self.generator = mlp(3, 4, "generator")

    def compile(self, d_optimizer, g_optimizer, **options):
        super().compile(**options)
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer


class Gan(Parts):
    def train_step(self, real):
        noise = tf.random.normal((ROWS, 3))
        with tf.GradientTape() as tape:
            fake = self.generator(noise, training=True)
            d_loss = ops.mean(self.critic(fake)) - ops.mean(self.critic(real))
            scaled = self.d_optimizer.scale_loss(d_loss)
        gradients = tape.gradient(scaled, self.critic.trainable_weights)
        self.d_optimizer.apply(gradients, self.critic.trainable_weights)
        with tf.GradientTape() as tape:
            g_loss = -ops.mean(self.critic(self.generator(noise, training=True)))
            scaled = self.g_optimizer.scale_loss(g_loss)
        gradients = tape.gradient(scaled, self.generator.trainable_weights)
        self.g_optimizer.apply(gradients, self.generator.trainable_weights)
        return {"d_loss": d_loss, "g_loss": g_loss}


def train(model):
    x = np.random.default_rng(0).standard_normal((4 * ROWS, 4)).astype("float32")
    callback = MixedPrecision("mixed_float16", loss_scale=2.0**10)
    model.fit(x, batch_size=ROWS, epochs=2, shuffle=False, verbose=0, callbacks=[callback])
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    return callback.report


def test_both_optimizers_of_a_gan_scale_their_losses():
    model = Gan()
    model.spare = keras.Sequential([layers.Dense(1)])  # which no step calls
    model.compile(keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3))
    own = model.d_optimizer, model.g_optimizer
    before = [weight.copy() for weight in model.get_weights()]
    report = train(model)
    assert (report.steps, report.skipped_steps) == (16, 0)
    for optimizer in (model.d_optimizer, model.g_optimizer):
        assert read_counters(optimizer).loss_scale == 2.0**10
        assert read_counters(optimizer).gradients.underflow < 0.01
    assert all((a != b).any() for a, b in zip(before, model.get_weights(), strict=True) if a.any())
    assert not [finding for finding in report.findings if "scaling" in finding.check]
    tfmp.revert(model)
    assert (model.d_optimizer, model.g_optimizer) == own


class Unscaled(Parts):
    """Applies gradients of a loss that nobody scales, with the optimizer of `compile`, too."""

    def train_step(self, real):
        weights = self.critic.trainable_weights
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self.critic(real))) * 1e-9
        gradients = tape.gradient(loss, weights)
        self.optimizer.apply(gradients, weights)
        self.g_optimizer.apply(gradients, weights)
        if self.run_eagerly:
            self.held = loss + getattr(self, "held", 0.0)
        return {"loss": loss}


@pytest.mark.parametrize("eager", [False, True])
def test_every_optimizer_of_a_step_that_scales_nothing_is_named(eager):
    model = Unscaled()
    if not eager:  # a trace builds the optimizer of `compile` for the critic alone
        model.spare = keras.Sequential([layers.Dense(1)])
    model.compile(None, keras.optimizers.Adam(1e-3), run_eagerly=eager)
    report = train(model)
    assert [one.loss_scale for one in report.loss_scales] == [1.0, 1.0]
    (finding,) = [one for one in report.findings if one.check in ("underflow", UNSCALED_STEP)]
    assert finding.message.startswith("Unscaled.train_step never calls scale_loss: its")
    assert finding.fix.endswith(
        "self.optimizer.scale_loss(loss) and self.g_optimizer.scale_loss(loss)"
    )


STRANGER = keras.optimizers.SGD(0.0)


class Stranger(Gan):
    """Scales with an optimizer that is held, and applies with one that nobody can find."""

    def train_step(self, real):
        with tf.GradientTape() as tape:
            loss = ops.mean(self.critic(real))
            scaled = self.d_optimizer.scale_loss(loss)
        weights = self.critic.trainable_weights
        STRANGER.apply(tape.gradient(scaled, weights), weights)
        return {"loss": loss}


def test_a_scaled_loss_whose_gradients_go_elsewhere_stops_the_training():
    model = Stranger()
    model.compile(keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3))
    with pytest.raises(ValueError, match=r"self\.d_optimizer scaled a loss, but its gradients"):
        train(model)


class Hidden(Parts):
    def compile(self):
        super().compile(None, None)
        self.agent = SimpleNamespace(optimizer=keras.optimizers.SGD(0.01))

    def train_step(self, real):
        weights = self.critic.trainable_weights
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self.critic(real)))
        self.agent.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


def test_optimizers_that_are_not_found_are_told():
    net = Hidden()
    net.compile()
    callback = MixedPrecision("mixed_float16")
    net.fit(np.ones((ROWS, 4), "float32"), batch_size=ROWS, verbose=0, callbacks=[callback])
    assert "Hidden.train_step took no step with an optimizer that tfmp found" in str(
        callback.report.findings[-1]
    )


def test_a_fit_without_data_misses_no_optimizer():
    net, callback = mlp(4, 1, "model"), MixedPrecision("mixed_float16")
    net.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="ran out of data"):
        net.fit(np.ones((0, 4)), np.ones((0, 1)), verbose=0, callbacks=[callback])
    assert {finding.status for finding in callback.report.findings} <= {"warning"}
