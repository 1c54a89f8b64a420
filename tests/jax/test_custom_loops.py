"""The five steps by hand on JAX: forward, scale, backward, unscale, update."""

import jax
import keras
import numpy as np
import pytest

from tfmp.loss_scaling.optimizer import DynamicLossScale, LossScaleOptimizer
from tfmp.loss_scaling.telemetry import read_counters

# The loss is this small, and its gradients with it: FP16 ends at 2**-24.
TINY = 2.0**-30


def model() -> keras.Model:
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


def adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.03, epsilon=1e-15)


def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
    return x, np.sin(x.sum(axis=1, keepdims=True))


def train(net: keras.Model, optimizer, steps: int = 150) -> list[float]:
    """A loop whose gradients and update are two jitted functions."""
    x, y = data()
    optimizer.build(net.trainable_variables)

    def scaled_loss(weights, rest, own):
        predicted, rest = net.stateless_call(weights, rest, x, training=True)  # 1. forward
        loss = keras.ops.mean(keras.ops.square(y - predicted)) * TINY
        mapping = list(zip(optimizer.variables, own, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return optimizer.scale_loss(loss), (loss, rest)  # 2. scale

    backward = jax.jit(jax.value_and_grad(scaled_loss, has_aux=True))
    update = jax.jit(optimizer.stateless_apply)  # 4. unscale, 5. update
    weights = [v.value for v in net.trainable_variables]
    rest = [v.value for v in net.non_trainable_variables]
    own = [v.value for v in optimizer.variables]
    losses = []
    for _ in range(steps):
        (_, (loss, rest)), gradients = backward(weights, rest, own)  # 3. backward
        weights, own = update(own, gradients, weights)
        losses.append(float(loss) / TINY)
    for variable, value in zip(optimizer.variables, own, strict=True):
        variable.assign(value)
    return losses


def test_gradients_that_would_underflow_train_with_gradients_and_update_compiled_apart():
    optimizer = LossScaleOptimizer(adam(), DynamicLossScale(growth_interval=3))
    losses = train(model(), optimizer)
    assert losses[-1] < losses[0] / 20
    counters = read_counters(optimizer)
    assert (counters.loss_scale > 2.0**20, counters.loss_was_scaled) == (True, True)


@pytest.mark.parametrize("bad", [False, True])
def test_a_jitted_loop_unscales_clips_and_applies(bad):
    target = keras.Variable([3.0, -4.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5))
    optimizer.build([target])

    @jax.jit
    def step(weights, own):
        mapping = list(zip(optimizer.variables, own, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            scaled = [weights[0] * optimizer.scale_loss(float("inf") if bad else 1.0)]
            unscaled = optimizer.unscale(scaled)
        norm = keras.ops.norm(unscaled[0])
        clipped = keras.ops.clip(unscaled[0], -1.0, 1.0)
        return optimizer.stateless_apply(own, [clipped], weights), norm

    own = [variable.value for variable in optimizer.variables]
    ((weights, own), norm) = step([target.value], own)
    np.testing.assert_allclose(weights[0], [3.0, -4.0] if bad else [2.5, -3.5])
    assert bad or float(norm) == 5.0
    scales = [value for old, value in zip(optimizer.variables, own, strict=True)
              if old is optimizer.dynamic_scale]  # fmt: skip
    assert scales == [2.0**14 if bad else 2.0**15]
