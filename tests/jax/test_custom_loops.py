"""The five steps by hand on JAX: forward, scale, backward, unscale, update."""

import jax
import keras
import numpy as np
import pytest

from tfmp.loss_scaling.optimizer import DynamicLossScale, LossScaleOptimizer, UnscaledLossWarning
from tfmp.loss_scaling.telemetry import read_counters

# The loss is this small, and its gradients with it: FP16 ends at 2**-24.
TINY = 2.0**-30


def model(policy: str) -> keras.Model:
    keras.utils.set_random_seed(3)
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((4,)),
            layers.Dense(8, activation="tanh", dtype=policy),
            layers.Dense(8, activation="tanh", dtype=policy),
            layers.Dense(1, dtype="float32", trainable=False),
        ]
    )


def adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.03, epsilon=1e-15)


def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
    return x, np.sin(x.sum(axis=1, keepdims=True))


def train(net: keras.Model, optimizer, split: bool = False, steps: int = 150) -> list[float]:
    """A jitted loop; `split` compiles gradients and update as two functions."""
    x, y = data()
    optimizer.build(net.trainable_variables)

    def scaled_loss(weights, rest, own):
        predicted, rest = net.stateless_call(weights, rest, x, training=True)  # 1. forward
        loss = keras.ops.mean(keras.ops.square(y - predicted)) * TINY
        mapping = list(zip(optimizer.variables, own, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return optimizer.scale_loss(loss), (loss, rest)  # 2. scale

    backward = jax.value_and_grad(scaled_loss, has_aux=True)

    def update(own, gradients, weights):
        return optimizer.stateless_apply(own, gradients, weights)  # 4. unscale, 5. update

    def step(weights, rest, own):
        (_, (loss, rest)), gradients = backward(weights, rest, own)  # 3. backward
        weights, own = update(own, gradients, weights)
        return loss, weights, rest, own

    if split:
        backward, update = jax.jit(backward), jax.jit(update)
    else:
        step = jax.jit(step)
    weights = [v.value for v in net.trainable_variables]
    rest = [v.value for v in net.non_trainable_variables]
    own = [v.value for v in optimizer.variables]
    losses = []
    for _ in range(steps):
        loss, weights, rest, own = step(weights, rest, own)
        losses.append(float(loss) / TINY)
    for variable, value in zip(optimizer.variables, own, strict=True):
        variable.assign(value)
    return losses


def test_gradients_that_underflow_stall_without_scaling_and_train_as_float32_with_it():
    in_full = train(model("float32"), adam())
    unscaled = train(model("mixed_float16"), adam())
    optimizer = LossScaleOptimizer(adam(), DynamicLossScale(growth_interval=3))
    scaled = train(model("mixed_float16"), optimizer)
    reached = in_full[0] / 20
    assert in_full[-1] < reached
    assert scaled[-1] < reached
    assert unscaled[-1] == unscaled[0]
    assert read_counters(optimizer).loss_scale > 2.0**20


def test_gradients_and_update_may_be_compiled_apart():
    optimizer = LossScaleOptimizer(adam(), 2.0**20)
    losses = train(model("mixed_float16"), optimizer, split=True, steps=5)
    assert losses[-1] < losses[0]
    assert read_counters(optimizer).loss_was_scaled is True


@pytest.mark.slow
def test_a_loop_that_forgets_to_scale_is_reported():
    target = keras.Variable([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.1))
    optimizer.build([target])
    with pytest.warns(UnscaledLossWarning, match="never called"):
        optimizer.stateless_apply(
            [v.value for v in optimizer.variables], [np.ones(1, "f4")], [target.value]
        )


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


def test_switched_off_it_is_the_inner_optimizer():
    target = keras.Variable([1.0, 2.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), enabled=False)
    optimizer.build([target])
    assert optimizer.scale_loss(2.0) == 2.0
    gradients = [jax.numpy.array([1.0, np.inf])]
    own = [variable.value for variable in optimizer.variables]
    weights, after = optimizer.stateless_apply(own, gradients, [target.value])
    np.testing.assert_array_equal(weights[0], [0.5, -np.inf])
    assert len(after) == len(own)
    optimizer.apply(gradients, [target])
    np.testing.assert_array_equal(target, [0.5, -np.inf])
