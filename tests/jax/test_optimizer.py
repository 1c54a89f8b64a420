"""LossScaleOptimizer on JAX: inside fit, statelessly under jit, eagerly, and on two devices."""

import jax
import keras
import numpy as np
import pytest

from tfmp.loss_scaling.optimizer import LossScaleOptimizer, UnscaledLossWarning
from tfmp.loss_scaling.strategies import DynamicLossScale, StaticLossScale
from tfmp.loss_scaling.telemetry import read_counters

INVALID = float("nan")


def data(poisoned: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((48, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    x[list(poisoned)] = np.nan
    return x, y


def variables(*values: list[float]) -> list[keras.Variable]:
    return [keras.Variable(value, dtype="float32") for value in values]


def stateless_step(optimizer):
    """A function (optimizer values, unscaled gradients, weights) -> new (weights, values)."""

    def step(own, gradients, weights):
        mapping = list(zip(optimizer.variables, own, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            scale = optimizer.scale_loss(1.0)
        scaled = [g if g is None else g * scale for g in gradients]
        return optimizer.stateless_apply(own, scaled, weights)

    return jax.jit(step)


def test_skips_change_nothing_but_the_scale_and_the_counters():
    targets = variables([1.0, 2.0], [3.0])
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(0.1), DynamicLossScale(hysteresis=2))
    optimizer.build(targets)
    step = stateless_step(optimizer)
    weights, own = [v.value for v in targets], [v.value for v in optimizer.variables]
    good, bad = [np.ones(2, "f4"), np.ones(1, "f4")], [np.ones(2, "f4"), np.full(1, INVALID, "f4")]
    weights, own = step(own, good, weights)
    after_one = [np.asarray(v).tolist() for v in weights]
    inner_count = len(optimizer.inner_optimizer.variables)
    inner = [np.asarray(v).tolist() for v in own[-inner_count:]]
    for gradients in (bad, bad, bad):
        weights, own = step(own, gradients, weights)
    assert [np.asarray(v).tolist() for v in weights] == after_one
    assert [np.asarray(v).tolist() for v in own[-inner_count:]] == inner
    for variable, value in zip(optimizer.variables, own, strict=True):
        variable.assign(value)
    counters = read_counters(optimizer)
    assert (counters.loss_scale, counters.skipped_steps) == (2.0**13, 3)
    assert [one.variable for one in counters.offenders] == [targets[1].path]


@pytest.mark.parametrize("bad", [INVALID, float("inf")])
def test_one_bad_value_in_a_large_gradient_skips_the_step(bad):
    """XLA's maximum of floats, for one, leaves NaN out of arrays of some shapes."""
    shapes = [(64, 128), (4096, 9), (70_000,)]
    targets = [keras.Variable(np.zeros(shape, "f4")) for shape in shapes]
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build(targets)
    step = stateless_step(optimizer)
    for place in range(3):
        gradients = [np.ones(shape, "f4") for shape in shapes]
        gradients[place].flat[-5] = bad
        weights, _ = step(
            [v.value for v in optimizer.variables], gradients, [v.value for v in targets]
        )
        assert not any(np.asarray(weight).any() for weight in weights)


@pytest.mark.slow
def test_apply_works_in_an_eager_loop_where_keras_leaks_tracers():
    targets = variables([1.0], [1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), StaticLossScale(4.0))
    for gradient in (1.0, INVALID, 1.0):
        scale = optimizer.scale_loss(1.0)
        optimizer.apply([np.full(1, gradient, "f4") * scale, np.ones(1, "f4") * scale], targets)
    assert [v.numpy().tolist() for v in targets] == [[0.0], [0.0]]
    assert read_counters(optimizer).skipped_steps == 1


def test_a_train_step_that_forgets_scale_loss_is_reported():
    class Forgetful(keras.Sequential):
        def compute_loss_and_updates(self, *args, optimizer_variables=None, **kwargs):
            return super().compute_loss_and_updates(
                *args, optimizer_variables=optimizer_variables, **{**kwargs, "training": False}
            )

    net = Forgetful([keras.layers.Input((4,)), keras.layers.Dense(1)])
    net.compile(LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
    with pytest.warns(UnscaledLossWarning, match="never called"):
        net.fit(*data(), verbose=0)
    assert net.optimizer.loss_was_scaled is False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: o.stateless_apply([], [], []), "expects a built optimizer"),
        (
            lambda o: (o.build(variables([1.0])), o.stateless_apply([], [1], [1])),
            r"expects 8 values in `optimizer_variables`, .* received 0\.",
        ),
    ],
)
def test_calls_that_cannot_work_say_so(call, message):
    with pytest.raises(ValueError, match=message):
        call(LossScaleOptimizer(keras.optimizers.SGD()))


def test_data_parallel_replicas_agree():
    assert len(jax.devices()) == 2
    before = keras.distribution.distribution()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=jax.devices()))
    try:
        # Rows 4 to 7 of each batch are on the second device: only it sees the NaN.
        keras.utils.set_random_seed(1)
        net = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        net.compile(LossScaleOptimizer(keras.optimizers.Adam(0.01)), "mse")
        net.fit(*data(poisoned=(7, 22)), batch_size=8, shuffle=False, verbose=0)
        counters = read_counters(net.optimizer, net)
        assert all(np.isfinite(weight).all() for weight in net.get_weights())
    finally:
        keras.distribution.set_distribution(before)
    assert (counters.skipped_steps, counters.loss_scale) == (2, 2.0**13)
