"""MixedPrecision with every kind of data and step, and beside other callbacks."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from own_layer import OwnModel
from probe_layer import Probe
from probed_fits import CLASSES, data, fit, model
from quick import quick

from tfmp import MixedPrecision, plan


def generator():
    x, y = data()
    while True:
        yield from ((x[8 * index :][:8], y[8 * index :][:8]) for index in range(6))


def test_a_generator_with_several_steps_an_execution():
    net = model(optimizer=keras.optimizers.SGD(0.1), steps_per_execution=3)
    callback = MixedPrecision("mixed_float16")
    options = {"verbose": 0, "callbacks": [callback], "epochs": 2, "shuffle": False}
    history = net.fit(generator(), steps_per_epoch=6, **options)
    assert callback.report.steps == 12
    assert history.history["skipped_steps"] == [0, 0]
    assert net.get_layer("hidden").compute_dtype == "float16"


def test_sparse_inputs():
    x, y = data()
    inputs = layers.Input((4,), sparse=True)
    hidden = layers.Dense(8, name="hidden")(inputs)
    net = keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(hidden))
    net.compile("sgd", "sparse_categorical_crossentropy")
    rows = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(np.maximum(x, 0)), y))
    callback = MixedPrecision("mixed_float16")
    net.fit(rows.batch(8), shuffle=False, verbose=0, callbacks=[callback])
    assert callback.report.steps == 6
    assert net.get_layer("hidden").compute_dtype == "float16"


def test_ragged_inputs_that_the_code_of_a_model_makes_dense():
    def dense(own, x):
        return own.out(own.body(x.to_tensor(shape=(None, 6))))

    rows = tf.ragged.constant([[1.0] * (1 + n % 5) for n in range(16)])
    net = OwnModel(dense, body=8, out=1)
    net.compile("sgd", "mse")
    callback = MixedPrecision("mixed_float16")
    batches = tf.data.Dataset.from_tensor_slices((rows, np.ones((16, 1)))).batch(8)
    net.fit(batches, shuffle=False, verbose=0, callbacks=[callback])
    assert callback.report.steps == 2


@pytest.mark.parametrize(
    "options", quick([{"jit_compile": True}, {"run_eagerly": True}], {"run_eagerly": True})
)
def test_compiled_and_eager_steps(options):
    net = model(Probe(), **options)
    Probe.seen.clear()
    callback = MixedPrecision("mixed_float16")
    history = fit(net, callback, *data(poisoned=[9]), epochs=2)
    assert Probe.seen[-1] == "float16"
    assert history.history["skipped_steps"] == [1, 1]
    assert callback.report.steps == 12


def test_callbacks_after_it_can_monitor_what_it_logs():
    net = model()
    stop = keras.callbacks.EarlyStopping(monitor="loss_scale", mode="max", patience=1)
    history = net.fit(
        *data(), epochs=9, verbose=0, callbacks=[MixedPrecision("mixed_float16"), stop]
    )
    assert len(history.history["loss_scale"]) == 2


def test_own_code_is_measured_on_the_masks_of_the_first_batch():
    """A made-up mask has rows with sums below 0, and their quotients are infinite in FP16."""

    class Aggregate(layers.Layer):
        def call(self, x, mask):
            count = keras.ops.maximum(keras.ops.sum(mask, -1, keepdims=True), 1e-6)
            return keras.ops.matmul(mask / count, x)

    inputs = [layers.Input((6, 8)), layers.Input((6, 6))]
    nodes = Aggregate(name="mean")(layers.Dense(8)(inputs[0]), inputs[1])
    net = keras.Model(inputs, layers.Dense(1)(nodes))
    net.compile("sgd", "mse")
    draw = np.random.default_rng(0)
    mask = np.maximum(draw.random((16, 6, 6)) < 0.3, np.eye(6)).astype("float32")
    x = [draw.standard_normal((16, 6, 8), "float32"), mask]
    expected = plan(net, "mixed_float16", data=x).to_dict()
    assert plan(net, "mixed_float16").to_dict() != expected
    callback = MixedPrecision("mixed_float16")
    net.fit(x, x[0][:, :, :1], shuffle=False, verbose=0, callbacks=[callback])
    assert callback.plan.to_dict() == expected
    assert callback.report.steps == 1
    assert net.get_layer("mean").compute_dtype == "float16"


def test_layers_of_a_graph_that_its_first_step_builds():
    class Late(layers.Layer):
        def build(self, shape):
            self.inner = layers.Dense(shape[-1])

        def call(self, x):
            return self.inner(x) * 1.0

        def compute_output_shape(self, shape):
            return shape

    net = model(Late())
    fit(net, MixedPrecision("mixed_float16"), *data())
    assert len(net.optimizer._trainable_variables) == 6
