"""Skipped steps leave no trace in layers' states; test_callback_bad_rows has the metrics."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from stacks import stack

from tfmp import MixedPrecision

GOOD, OVERFLOWING = 1.0, 30000.0


class Remembers(layers.Layer):
    """Counts its training steps in a float and in an integer, and holds an infinity on purpose."""

    def build(self, shape):
        def state(name, value, dtype="float32"):
            return self.add_weight((1,), value, dtype, name=name, trainable=False, autocast=False)

        self.seen, self.steps = state("seen", "zeros"), state("steps", "zeros", "int32")
        self.lowest = state("lowest", keras.initializers.Constant(-np.inf))

    def call(self, inputs, training=False):
        if training:
            self.seen.assign(self.seen + 1.0)
            self.steps.assign(self.steps + 1)
            self.lowest.assign(ops.minimum(self.lowest.value, ops.cast(ops.min(inputs), "float32")))
        return inputs


def network() -> keras.Sequential:
    keras.utils.set_random_seed(0)
    convolution = layers.Conv1D(3, 2, kernel_initializer="ones")
    normalization = layers.BatchNormalization(momentum=0.5)
    return keras.Sequential([convolution, normalization, Remembers(), layers.Dense(1)])


class Late(keras.Model):
    """A model whose layers have no weights before its first batch."""

    def __init__(self):
        super().__init__()
        self.inside = network()

    def call(self, inputs, training=False):
        return self.inside(inputs, training=training)  # on JAX Keras does not hand it on


def states_after(
    model: keras.Model, batches: list[float], output=(2, 1), **options
) -> dict[str, np.ndarray]:
    """The values of the layers' states after a fit with an optimizer that moves no weight."""
    factors = np.repeat(batches, 4)[:, None, None]
    base = np.random.default_rng(0).uniform(1.0, 2.0, (4, 3, 2))
    x = (np.tile(base, (len(batches), 1, 1)) * factors).astype("float32")
    model.compile(keras.optimizers.SGD(0.0), "mse", **options)
    callback = MixedPrecision("mixed_float16", loss_scale=1.0)
    model.fit(
        x, np.zeros((len(x), *output)), batch_size=4, shuffle=False, verbose=0, callbacks=[callback]
    )
    assert callback.report.skipped_steps == batches.count(OVERFLOWING)
    return {v.name: ops.convert_to_numpy(v.value) for v in model.non_trainable_variables}


def check_no_trace(with_skips: dict[str, np.ndarray], without: dict[str, np.ndarray]) -> None:
    assert (with_skips["seen"], with_skips["steps"], with_skips["lowest"]) == (2.0, 3, -np.inf)
    for name in ("moving_mean", "moving_variance"):
        assert np.isfinite(with_skips[name]).all()
        np.testing.assert_allclose(with_skips[name], without[name], rtol=1e-6)
    assert np.abs(without["moving_mean"]).max() > 0.1  # applied steps move them


def test_a_skipped_step_leaves_no_trace_in_the_states_of_layers():
    states = states_after(network(), [GOOD, OVERFLOWING, GOOD])
    check_no_trace(states, states_after(network(), [GOOD, GOOD]))


def test_a_skipped_step_with_a_finite_loss_ends_no_training():
    model, x = network(), np.ones((12, 3, 2), "float32")
    model.compile(keras.optimizers.SGD(0.0), "mse")
    ends = [MixedPrecision("mixed_float16", loss_scale=65536.0), keras.callbacks.TerminateOnNaN()]
    curve = model.fit(x, np.full((12, 2, 1), 9.0), batch_size=4, verbose=0, callbacks=ends).history
    assert ends[0].report.skipped_steps == ends[0].report.steps == 3
    assert np.isfinite(curve["loss"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"run_eagerly": True}, {"steps_per_execution": 3}],
    ids=str,
)
def test_it_leaves_none_however_the_step_runs(options):
    states = states_after(network(), [GOOD, OVERFLOWING, GOOD], **options)
    check_no_trace(states, states_after(network(), [GOOD, GOOD]))


@pytest.mark.slow
def test_it_leaves_none_in_a_model_that_is_built_late():
    states = states_after(Late(), [GOOD, OVERFLOWING, GOOD])
    check_no_trace(states, states_after(Late(), [GOOD, GOOD]))


@pytest.mark.slow
def test_it_leaves_none_in_the_states_of_recurrent_layers():
    keras.utils.set_random_seed(0)
    recurrent = layers.SimpleRNN(4, activation="relu", kernel_initializer="ones", stateful=True)
    model = keras.Sequential([layers.Input(batch_shape=(4, 3, 2)), recurrent, layers.Dense(1)])
    states_after(model, [GOOD, OVERFLOWING, OVERFLOWING, GOOD], output=(1,))
    assert np.isfinite(ops.convert_to_numpy(recurrent.states[0].value)).all()


@pytest.mark.parametrize(
    ("odd", "skipped", "bounds"),
    # Of a batch that no scale makes finite, the half without the odd row chooses.
    [([], 0, (1, 16)), ([3], 1, (1, 16)), (slice(None), 1, (2.0**14, 2.0**14))],
)
def test_the_first_batch_chooses_the_loss_scale(odd, skipped, bounds):
    model = stack(16, 1, inputs=(8,), optimizer="sgd", loss="mse", jit_compile=False)
    callback = MixedPrecision("mixed_float16")
    y = np.full((8, 1), 1e4)
    y[odd] = np.nan
    model.fit(np.ones((8, 8)), y, verbose=0, callbacks=[callback])
    report = callback.report
    assert (report.steps, report.skipped_steps) == (1, skipped)
    assert bounds[0] <= report.loss_scales[-1].loss_scale <= bounds[1]
