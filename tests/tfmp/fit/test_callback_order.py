"""MixedPrecision before and after callbacks that read or write the model's state."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from probed_fits import EAGER
from stacks import stack

import tfmp

SCALE = tfmp.DynamicLossScale(initial=2.0**10, growth_interval=4)


class Interruption(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


def model(**optimizer_options) -> keras.Model:
    keras.utils.set_random_seed(1)
    adam = keras.optimizers.Adam(0.01, **optimizer_options)
    return stack(layers.Dense(8, "relu"), 1, optimizer=adam, loss="mse", **EAGER)


def callback() -> tfmp.MixedPrecision:
    return tfmp.MixedPrecision("mixed_float16", loss_scale=SCALE)


def train(net, others, mixed_first, mixed=None, **options) -> keras.Model:
    mixed = mixed or callback()
    x = np.random.default_rng(0).standard_normal((64, 4), dtype=np.float32)
    net.fit(
        x, x.sum(axis=1), batch_size=16, shuffle=False, verbose=0,
        callbacks=[mixed, *others] if mixed_first else [*others, mixed], **options,
    )  # fmt: skip
    return net


def state(net) -> list[np.ndarray]:
    return [ops.convert_to_numpy(variable.value) for variable in net.variables]


def assert_equal_state(ours, theirs):
    for one, other in zip(state(ours), state(theirs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mixed_first", [pytest.param(True, marks=pytest.mark.slow), False])
def test_an_interrupted_run_goes_on(tmp_path, mixed_first):
    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)

    with pytest.raises(KeyboardInterrupt):
        train(model(), [backup(), Interruption()], mixed_first, epochs=4)
    mixed = callback()
    resumed = train(model(), [backup()], mixed_first, mixed, epochs=4)
    straight = train(model(), [], mixed_first, epochs=4)
    assert int(ops.convert_to_numpy(resumed.optimizer.iterations)) == 16
    assert float(ops.convert_to_numpy(resumed.optimizer.dynamic_scale)) == 2.0**14
    assert_equal_state(resumed, straight)
    assert mixed.report.steps == 8


def test_a_callback_that_compiles_anew_comes_before():
    class Compiling(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.model.compile(keras.optimizers.Adam(0.5), "mse")

    net = train(model(), [Compiling()], mixed_first=False, epochs=1)
    assert isinstance(net.optimizer, tfmp.LossScaleOptimizer)
    assert float(ops.convert_to_numpy(net.optimizer.learning_rate)) == 0.5


@pytest.mark.slow
def test_a_fit_that_fails_before_it_begins_changes_nothing_in_the_next():
    """Another callback may raise after this one has asked to begin early."""

    class Broken(keras.callbacks.Callback):
        def set_model(self, model):
            raise RuntimeError("broken")

    keras.utils.set_random_seed(1)
    model = stack(8, 1, optimizer="adam", loss="mse")
    x, y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
    mixed = tfmp.MixedPrecision("mixed_float16")
    with pytest.raises(RuntimeError, match="broken"):
        model.fit(x, y, verbose=0, callbacks=[mixed, Broken()])
    model.fit(x, y, verbose=0)
    assert type(model.optimizer) is keras.optimizers.Adam
    assert {layer.compute_dtype for layer in model.layers} == {"float32"}
    model.fit(x, y, verbose=0, callbacks=[mixed])
    assert isinstance(model.optimizer, tfmp.LossScaleOptimizer)
