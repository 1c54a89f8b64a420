"""MixedPrecision: what one callback does to a fit of any compiled model, and bad input."""

import pickle
import re

import keras
import numpy as np
import pytest
from backends import only_on
from keras import layers, ops
from own_layer import OwnModel
from probe_layer import Probe
from probed_fits import CLASSES, EAGER, data, fit, model

import tfmp
from tfmp import MixedPrecision, StaticLossScale


def test_the_fit_that_it_is_given_to_trains_in_mixed_precision():
    net = model(Probe())
    net.fit(*data(), verbose=0)  # traces a float32 function that must not be used again
    callback = MixedPrecision("mixed_float16")
    Probe.seen.clear()
    history = fit(net, callback, *data())
    assert Probe.seen[-1] == "float16"
    assert net.get_layer("hidden").compute_dtype == "float16"
    assert net.get_layer("out").compute_dtype == "float32"
    assert isinstance(net.optimizer, tfmp.LossScaleOptimizer)
    assert history.history["loss_scale"] == [2.0**15]
    assert history.history["skipped_steps"] == [0]
    assert callback.plan.policy == "mixed_float16"


@only_on("tensorflow", "jax", reason="PyTorch traces nothing")
def test_a_second_fit_of_an_unchanged_model_makes_nothing_anew(tmp_path):
    net = model(Probe())
    fit(net, MixedPrecision("mixed_float16"), *data())
    net.save_weights(tmp_path / "net.weights.h5")
    net.load_weights(tmp_path / "net.weights.h5")  # what a fit left is no part of the model

    def is_traced_by(**options):
        Probe.seen.clear()
        callback = MixedPrecision("mixed_float16", **options)
        history = fit(net, callback, *data(), epochs=1)
        assert callback.report.steps > 0
        assert callback.plan.policy == "mixed_float16"
        assert history.history["skipped_steps"] == [0]
        return bool(Probe.seen)

    assert not is_traced_by()
    assert net.get_layer("hidden").compute_dtype == "float16"
    assert is_traced_by(keep_float32="hidden")
    net.compile("sgd", "sparse_categorical_crossentropy")
    assert is_traced_by(keep_float32="hidden")
    tfmp.revert(net)
    assert is_traced_by()
    assert net.get_layer("hidden").compute_dtype == "float16"


def test_auto_leaves_a_model_alone_on_a_cpu_and_still_logs():
    net = model()
    adam = net.optimizer
    history = fit(net, MixedPrecision(), *data(), epochs=2)
    assert net.optimizer is adam
    assert history.history["loss_scale"] == [1.0, 1.0]
    assert history.history["skipped_steps"] == [0, 0]


@pytest.mark.slow
def test_policies_may_change_from_fit_to_fit():
    net = model(Probe())
    adam, variables = net.optimizer, net.variables
    for policy, dtype, wrapped in [
        ("mixed_float16", "float16", True),
        ("float32", "float32", False),
        ("mixed_bfloat16", "bfloat16", True),
        ("mixed_float16", "float16", True),
    ]:
        Probe.seen.clear()
        fit(net, MixedPrecision(policy), *data())
        assert Probe.seen[-1] == dtype
        assert isinstance(net.optimizer, tfmp.LossScaleOptimizer) is wrapped
        if policy == "mixed_bfloat16":
            assert net.optimizer.loss_scale == StaticLossScale(1.0)
        assert (net.optimizer.inner_optimizer if wrapped else net.optimizer) is adam
    tfmp.revert(net)
    assert net.optimizer is adam
    assert int(ops.convert_to_numpy(adam.iterations)) == 4 * 6
    assert all(now is old for now, old in zip(net.variables, variables, strict=True))


@only_on("tensorflow", "jax", reason="Keras's fit on PyTorch refuses it")
def test_a_model_without_weights_is_built_from_the_first_batch():
    x, y = data()
    x[9] = 7e4  # infinite in float16: what the first batches hold is looked at, too
    net = OwnModel(lambda own, x: own.out(own.hidden(x["values"])), hidden=8, out=CLASSES)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile("adam", loss, steps_per_execution=4)
    callback = MixedPrecision("mixed_float16")
    x = {"values": x}
    history = fit(net, callback, x, y, batch_size=16, epochs=2)
    dtypes = {layer.name: layer.compute_dtype for layer in net.layers}
    assert (dtypes["hidden"], dtypes["out"]) == ("float32", "float32")
    assert {variable.dtype for variable in net.trainable_variables} == {"float32"}
    report = callback.report
    assert report.steps == 6
    assert len(history.history["loss_scale"]) == 2
    assert len(report.loss_scales) == 2
    assert any("past 65504" in event.text for event in report.events)
    net.predict(x, batch_size=5, verbose=0)  # not tied to the size of that batch


def test_a_model_that_calls_itself_built_gets_its_sizes_from_the_first_batch():
    parts = [layers.Dense(8), layers.Dense(8)]
    net = OwnModel(lambda own, x: own.out(own.parts[1](own.parts[0](x))), parts=parts, out=1)
    net.built = True
    net.compile("sgd", "mse", **EAGER)
    callback = MixedPrecision("mixed_float16")
    fit(net, callback, *data())
    assert [part.compute_dtype for part in net.parts] == ["float16", "float16"]
    assert net.out.compute_dtype == "float32"
    assert (callback.report.steps, callback.report.findings) == (6, ())


class Nodes(OwnModel):
    """A graph that its `train_step` calls itself on; the data are indices of nodes."""

    def train_step(self, data):
        import tensorflow as tf

        places, y = data
        with tf.GradientTape() as tape:
            logits = self([tf.ones((90, 4)), tf.zeros((90, 2), "int32")])
            loss = self.compute_loss(y=y, y_pred=tf.gather(logits, places))
            scaled = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(
            zip(tape.gradient(scaled, variables), variables, strict=True)
        )
        return {"loss": loss}


@only_on("tensorflow", reason="a tape of TensorFlow")
def test_a_model_that_its_train_step_calls_on_other_inputs_is_built_by_that_step():
    def read(own, inputs):
        nodes, edges = inputs
        return own.out(ops.take(own.hidden(nodes), edges[:, 0], axis=0))

    net = Nodes(read, hidden=8, out=CLASSES)
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callback = MixedPrecision("mixed_float16")
    _, y = data()
    fit(net, callback, np.arange(len(y)) % 90, y)
    assert (net.hidden.compute_dtype, net.out.compute_dtype) == ("float16", "float32")
    assert callback.report.steps > 0


@pytest.mark.slow
def test_it_can_be_pickled_after_use(tmp_path):
    net = model()
    callback = MixedPrecision("mixed_float16", log_dir=tmp_path)
    fit(net, callback, *data(poisoned=[9]))
    again = pickle.loads(pickle.dumps(callback))
    assert (again.plan, again.report) == (callback.plan, callback.report)
    fit(model(), again, *data())
    assert (again.report.steps, again.report.skipped_steps) == (6, 0)


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"policy": "fp16"}, ValueError, "policy expects one of 'auto'"),
        ({"loss_scale": "dynamc"}, ValueError, 'loss_scale expects "dynamic"'),
        ({"log_every": 0}, ValueError, "log_every expects a whole number, 1 or more"),
        ({"on_nonfinite": "stop"}, ValueError, "'report', 'raise', 'keep_float32'"),
        ({"max_consecutive_skips": 0}, ValueError, "max_consecutive_skips expects a whole number"),
    ],
)
def test_a_bad_argument_is_refused_when_it_is_given(arguments, error, text):
    with pytest.raises(error, match=re.escape(text)):
        MixedPrecision(**arguments)


def test_a_pattern_that_matches_nothing_stops_the_fit_before_it_begins():
    net = model()
    with pytest.raises(ValueError, match="Names like it are: hidden"):
        fit(net, MixedPrecision("mixed_float16", keep_float32="hiden"), *data())
    assert isinstance(net.optimizer, keras.optimizers.Adam)
    assert net.get_layer("hidden").compute_dtype == "float32"
