"""Reports of loss scaling: custom loops, several optimizers, strategies, files."""

import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from training_case import Outcome, TrainingCase, learnt, mixed, rows, sums

import tfmp

layers = keras.layers
X, Y = rows(8), sums(rows(8))
Wrap = Callable[[keras.optimizers.Optimizer], keras.optimizers.Optimizer]
KERAS, TFMP = keras.optimizers.LossScaleOptimizer, tfmp.LossScaleOptimizer


def sgd(rate: float = 0.1, **options: object) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(rate, **options)


def stack() -> keras.Model:
    return keras.Sequential([keras.Input((8,)), layers.Dense(8), layers.Dense(1, dtype="float32")])


def mixed_stack() -> keras.Model:
    with mixed():
        return stack()


def seen(good: bool, words: str) -> Outcome:
    return Outcome(bool(good), words)


# --- strategies ---


@cache
def two_cpus() -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def mirrored_fit(ours: bool) -> Outcome:
    """One row in ten is large, and overflows FP16 on one replica at a time."""
    random = np.random.default_rng(0)
    large = np.where(random.random((384, 1)) < 0.1, 30.0, 1.0)
    x = (random.standard_normal((384, 8)) * large).astype("float32")
    callbacks = [tfmp.MixedPrecision("mixed_float16")] if ours else []
    with two_cpus().scope():
        model = stack() if ours else mixed_stack()
        model.compile(sgd(0.001), "mse")
    model.fit(x, sums(x, 10.0), batch_size=16, verbose=0, callbacks=callbacks, shuffle=False)
    finite = all(np.isfinite(weights).all() for weights in model.get_weights())
    return seen(finite, f"the weights are {'' if finite else 'not '}finite")


def compiled_fit(ours: bool) -> Outcome:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    callbacks = [tfmp.MixedPrecision("mixed_float16")] if ours else []
    with strategy.scope():
        model = stack() if ours else mixed_stack()
        model.compile(sgd(0.01), "mse", jit_compile=True)
    history = model.fit(X, Y, batch_size=16, epochs=6, verbose=0, callbacks=callbacks)
    return learnt(history)


def nan_on_one_replica(wrap: Wrap) -> Outcome:
    strategy = two_cpus()
    with strategy.scope():
        weight = keras.Variable([1.0])
        optimizer = wrap(sgd())
        optimizer.build([weight])

    @tf.function
    def step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        own = tf.gather(tf.constant([1.0, float("nan")]), replica)
        optimizer.apply([tf.reshape(optimizer.scale_loss(own), [1])], [weight])

    strategy.run(step)
    (value,) = weight.numpy()
    return seen(np.isfinite(value), f"the weight is {value:g} after a NaN on the second replica")


# --- loops in the words of Keras 2 ---


def keras_2_loop(wrap: Wrap) -> Outcome:
    model, optimizer, losses = mixed_stack(), wrap(sgd()), []
    for _ in range(20):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(Y - model(X)))
            scaled = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        losses.append(float(loss))
    return seen(losses[-1] < 0.9 * losses[0], f"loss {losses[0]:.2g} to {losses[-1]:.2g}")


def has_keras_2_methods(wrap: Wrap) -> Outcome:
    has = hasattr(wrap(sgd()), "get_scaled_loss")
    return seen(has, f"`get_scaled_loss` exists: {has}")


def forgets_to_scale(wrap: Wrap) -> Outcome:
    """The loop of a reader who was told that the wrapper takes care of it."""
    model, optimizer, losses = mixed_stack(), wrap(sgd()), []

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(Y - model(X)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        losses.append(float(loss))

    return warned_or_learnt(step, losses)


def warned_or_learnt(step: Callable[[], None], losses: list[float]) -> Outcome:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(20):
            step()
    warned = [str(one.message) for one in told if "scale_loss" in str(one.message)]
    text = f"a warning names scale_loss: {bool(warned)}; loss {losses[0]:.2g} to {losses[-1]:.2g}"
    return seen(warned or losses[-1] < 0.9 * losses[0], text)


def forgets_to_scale_on_jax(wrap: Wrap) -> Outcome:
    import jax

    model, optimizer = mixed_stack(), wrap(sgd())
    optimizer.build(model.trainable_variables)

    def mean_loss(weights, rest):
        answer, rest = model.stateless_call(weights, rest, X)
        return keras.ops.mean(keras.ops.square(Y - answer)), rest

    @jax.jit
    def compiled(weights, rest, own):
        (loss, rest), gradients = jax.value_and_grad(mean_loss, has_aux=True)(weights, rest)
        return loss, *optimizer.stateless_apply(own, gradients, weights)

    def step():
        nonlocal weights, own
        loss, weights, own = compiled(weights, rest, own)
        losses.append(float(loss))

    weights = [variable.value for variable in model.trainable_variables]
    rest = [variable.value for variable in model.non_trainable_variables]
    own, losses = [variable.value for variable in optimizer.variables], []
    return warned_or_learnt(step, losses)


def float16_loss(wrap: Wrap) -> Outcome:
    scaled = wrap(sgd()).scale_loss(tf.constant(4.0, tf.float16))
    return seen(np.isfinite(scaled), f"a float16 loss of 4 becomes {float(scaled):g}")


def gradient_penalty(wrap: Wrap) -> Outcome:
    """Both gradients of the penalty pass through FP16, each with a scaled loss."""
    weight, optimizer = keras.Variable([3.0, 4.0]), wrap(sgd(0.5))
    optimizer.build([weight])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(tf.square(weight.value)) / 2
            scaled = optimizer.scale_loss(loss)
        (gradient,) = optimizer.unscale(inner.gradient(scaled, [weight.value]))
        scaled = optimizer.scale_loss(loss + tf.norm(gradient))
    optimizer.apply(outer.gradient(scaled, [weight.value]), [weight])
    right = np.allclose(weight, [1.2, 1.6], rtol=1e-5)
    return seen(right, f"the step is {'' if right else 'not '}as in float32")


# --- several optimizers ---


class Gan(keras.Model):
    """Overrides `compile`, as the guide to custom steps does."""

    def __init__(self):
        super().__init__()
        self.critic, self.generator = layers.Dense(1), layers.Dense(8)
        self.critic.build((None, 8))
        self.generator.build((None, 4))
        self.built = True

    def compile(self, d_optimizer, g_optimizer):
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer

    def train_step(self, real):
        noise = tf.random.normal((tf.shape(real)[0], 4))
        with tf.GradientTape(persistent=True) as tape:
            fake = self.critic(self.generator(noise))
            d_loss = tf.reduce_mean(tf.cast(self.critic(real) - fake, tf.float32))
            g_loss = tf.reduce_mean(tf.cast(fake, tf.float32))
            d_scaled = self.d_optimizer.scale_loss(d_loss)
            g_scaled = self.g_optimizer.scale_loss(g_loss)
        for optimizer, scaled, part in (
            (self.d_optimizer, d_scaled, self.critic),
            (self.g_optimizer, g_scaled, self.generator),
        ):
            weights = part.trainable_variables
            optimizer.apply(tape.gradient(scaled, weights), weights)
        return {"d_loss": d_loss}


def gan(ours: bool) -> Outcome:
    callbacks = [tfmp.MixedPrecision("mixed_float16")] if ours else []
    model = Gan()
    if not ours:
        with mixed():
            model = Gan()
    model.compile(sgd(0.01), sgd(0.01))
    model.fit(X, batch_size=16, verbose=0, callbacks=callbacks)
    scaled = [isinstance(one, KERAS) for one in (model.d_optimizer, model.g_optimizer)]
    return seen(all(scaled), f"{sum(scaled)} of 2 optimizers scale their loss")


def wrapped_twice(wrap: Wrap) -> Outcome:
    inner = sgd(momentum=0.9)
    first, second = wrap(inner), None
    try:
        second = wrap(inner)
    except ValueError as error:
        return seen("create a second" in str(error), str(error).partition(". ")[2])
    weight = keras.Variable([1.0])
    for optimizer in (first, second):
        optimizer.apply([optimizer.scale_loss(tf.constant([1.0]))], [weight])
    return seen(False, "two wrappers move one optimizer's moments, without a word")


# --- scales ---


def large_loss(optimizer: keras.optimizers.Optimizer) -> Outcome:
    """Gradients overflow FP16 at every scale from 2**-4 on."""
    variable = keras.Variable([[1.0]])
    optimizer.build([variable])
    applied = 0
    for _ in range(60):
        with tf.GradientTape() as tape:
            half = tf.cast(variable.value, tf.float16)
            loss = tf.reduce_sum(tf.cast(half * tf.constant(1.0, tf.float16), tf.float32)) * 1e6
            scaled = optimizer.scale_loss(loss)
        before = int(optimizer.iterations)
        optimizer.apply(tape.gradient(scaled, [variable.value]), [variable])
        applied += int(optimizer.iterations) - before
    scale = float(optimizer.dynamic_scale)
    return seen(applied > 0, f"{applied} of 60 steps are applied, the scale is {scale:.3g}")


def counted(wrap: Wrap) -> Outcome:
    weight, optimizer = keras.Variable([1.0]), wrap(sgd())
    for _ in range(3):
        optimizer.apply([optimizer.scale_loss(tf.constant([1.0]))], [weight])
    steps = int(optimizer.iterations)
    return seen(steps == 3, f"`iterations` is {steps} after 3 steps")


# --- the graph rewrite ---


def graph_rewrite_of_keras() -> Outcome:
    rewrite = tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite
    return seen(True, type(rewrite(sgd())).__name__)


def graph_rewrite_of_tfmp() -> Outcome:
    tfmp.enable_mixed_precision_graph_rewrite(sgd())
    tfmp.disable_mixed_precision_graph_rewrite()
    model, moved = stack(), []
    for by_xla in (False, True):
        function = tf.function(lambda x: model(x), jit_compile=by_xla)
        written = function(X)
        with tfmp.graph_rewrite("bfloat16"):
            moved.append(float(tf.reduce_max(tf.abs(function(X) - written))))
    words = f"results move by {moved[0]:.1g} in a graph, by {moved[1]:.1g} in XLA"
    return seen(moved[0] > 0 == moved[1], words)


# --- files ---


def trained(ours: bool, callbacks: list[keras.callbacks.Callback]) -> keras.Model:
    model = stack() if ours else mixed_stack()
    inner = keras.optimizers.RMSprop(0.01)
    model.compile(TFMP(inner) if ours else inner, "mse")
    mixing = [tfmp.MixedPrecision("mixed_float16")] if ours else []
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[*mixing, *callbacks])
    return model


def model_checkpoint(ours: bool) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        model = trained(ours, [keras.callbacks.ModelCheckpoint(path)])
        loaded = keras.models.load_model(path)
    pairs = zip(loaded.optimizer.variables, model.optimizer.variables, strict=True)
    same = all(np.allclose(one, other) for one, other in pairs)
    return seen(same, f"the loaded optimizer is {'' if same else 'not '}the saved one")


def pair(thread: str, title: str, side: Callable[..., Outcome]) -> TrainingCase:
    """A report about the wrapper: Keras's class and ours in the same code."""
    return TrainingCase(thread, title, lambda: side(KERAS), lambda: side(TFMP))


def switch(thread: str, title: str, side: Callable[[bool], Outcome]) -> TrainingCase:
    """A report about `fit`: without and with the callback of this package."""
    return TrainingCase(thread, title, lambda: side(False), lambda: side(True))


LOW = {"loss_scale": tfmp.DynamicLossScale(min_scale=2.0**-24)}

CASES = [
    switch(
        "keras-team/keras#18666", "MirroredStrategy: merge_call fails in the wrapper", mirrored_fit
    ),
    switch(
        "keras-team/keras#21366", "MirroredStrategy with jit_compile=True crashes", compiled_fit
    ),
    pair(
        "tensorflow/tensorflow#25080",
        "loss scaling does not support MirroredStrategy",
        nan_on_one_replica,
    ),
    pair("tensorflow/tensorflow#64124", "get_scaled_loss() does not exist", has_keras_2_methods),
    pair("keras-team/keras#20894", "the tutorial's custom loop fails", keras_2_loop),
    pair("keras-team/keras#19479", "unclear whether to scale the loss by hand", forgets_to_scale),
    TrainingCase(
        "keras-team/keras#19244",
        "JAX: a wrapped AdamW stops to learn",
        lambda: forgets_to_scale_on_jax(KERAS),
        lambda: forgets_to_scale_on_jax(TFMP),
        backend="jax",
    ),
    pair("tensorflow/tensorflow#33484", "a float16 loss cannot be scaled", float16_loss),
    pair("tensorflow/tensorflow#48662", "gradient penalty is unstable", gradient_penalty),
    switch(
        "tensorflow/tensorflow#49368",
        "a GAN's own `compile` leaves its optimizers without loss scaling",
        gan,
    ),
    pair("tensorflow/tensorflow#48862", "one optimizer in two wrappers", wrapped_twice),
    TrainingCase(
        "tensorflow/tensorflow#38357",
        "a dynamic scale must be able to fall below 1",
        lambda: large_loss(KERAS(sgd(1e-9))),
        lambda: large_loss(TFMP(sgd(1e-9), **LOW)),
    ),
    pair("keras-team/keras#20878", "the wrapper does not increment iterations", counted),
    TrainingCase(
        "tensorflow/tensorflow#34406",
        "the graph rewrite brings no speed-up",
        graph_rewrite_of_keras,
        graph_rewrite_of_tfmp,
    ),
    switch(
        "keras-team/keras#18112",
        "ModelCheckpoint fails: no attribute '_variables'",
        model_checkpoint,
    ),
]
