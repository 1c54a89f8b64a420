"""MixedPrecision with every kind of data and step, and beside other callbacks."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from probe_layer import Probe
from probed_fits import CLASSES, data, fit, model
from quick import quick

import tfmp
from tfmp import MixedPrecision


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(7)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        x, y = data()
        return x[8 * index : 8 * index + 8], y[8 * index : 8 * index + 8]


def generator():
    while True:
        yield from (Batches()[index] for index in range(6))


def tf_data():
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices(data()).batch(8)


@pytest.mark.parametrize(
    "kind", quick(["arrays", "PyDataset", "generator", "tf.data"], "generator", "tf.data")
)
@pytest.mark.parametrize("steps_per_execution", quick([1, 3], 3))
def test_any_kind_of_data(kind, steps_per_execution):
    net = model(optimizer=keras.optimizers.SGD(0.1), steps_per_execution=steps_per_execution)
    callback = MixedPrecision("mixed_float16")
    options = {"verbose": 0, "callbacks": [callback], "epochs": 2, "shuffle": False}
    if kind == "arrays":
        history = net.fit(*data(), batch_size=8, **options)
    elif kind == "PyDataset":
        history = net.fit(Batches(workers=1), **options)
    elif kind == "generator":
        history = net.fit(generator(), steps_per_epoch=6, **options)
    else:
        history = net.fit(tf_data(), **options)
    assert callback.report.steps == 12
    assert history.history["skipped_steps"] == [0, 0]
    assert net.get_layer("hidden").compute_dtype == "float16"


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow's types")
def test_sparse_inputs():
    import tensorflow as tf

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


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow's types")
def test_ragged_inputs_that_the_code_of_a_model_makes_dense():
    import tensorflow as tf

    class Sequences(keras.Model):
        def __init__(self):
            super().__init__()
            self.body, self.out = layers.Dense(8), layers.Dense(1)

        def call(self, x):
            return self.out(self.body(x.to_tensor(shape=(None, 6))))

    rows = tf.ragged.constant([[1.0] * (1 + n % 5) for n in range(16)])
    net = Sequences()
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


@pytest.mark.slow
def test_beside_other_callbacks(tmp_path):
    net = model()
    x, y = data()
    rates = []
    others = [
        keras.callbacks.EarlyStopping(monitor="loss", patience=5),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=9),
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="val_loss"),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: rates.append(float(net.optimizer.learning_rate.value))
        ),
    ]
    callbacks = [MixedPrecision("mixed_float16"), *others]
    history = net.fit(x, y, epochs=3, verbose=0, validation_split=0.25, callbacks=callbacks)
    assert rates == pytest.approx([0.1, 0.05, 0.1 / 3])
    assert history.history["loss_scale"] == [2.0**15] * 3
    columns = (tmp_path / "log.csv").read_text().splitlines()[0].split(",")
    assert {"loss_scale", "skipped_steps"} <= set(columns)
    assert isinstance(
        keras.models.load_model(tmp_path / "best.keras").optimizer, tfmp.LossScaleOptimizer
    )


def test_callbacks_after_it_can_monitor_what_it_logs():
    net = model()
    stop = keras.callbacks.EarlyStopping(monitor="loss_scale", mode="max", patience=1)
    history = net.fit(
        *data(), epochs=9, verbose=0, callbacks=[MixedPrecision("mixed_float16"), stop]
    )
    assert len(history.history["loss_scale"]) == 2


@pytest.mark.slow
def test_a_run_that_was_interrupted_goes_on(tmp_path):
    class Interruption(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    def run(*extra):
        keras.utils.set_random_seed(1)
        net = model(optimizer=keras.optimizers.SGD(0.1))
        callbacks = [
            MixedPrecision("mixed_float16", loss_scale=tfmp.DynamicLossScale(growth_interval=4)),
            keras.callbacks.BackupAndRestore(tmp_path / str(bool(extra)), delete_checkpoint=False),
            *extra,
        ]
        net.fit(*data(), batch_size=8, epochs=4, shuffle=False, verbose=0, callbacks=callbacks)
        return net

    with pytest.raises(KeyboardInterrupt):
        run(Interruption())
    resumed, straight = run(keras.callbacks.Callback()), run()
    for ours, theirs in zip(resumed.variables, straight.variables, strict=True):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(ours.value), ops.convert_to_numpy(theirs.value)
        )
    scales = [float(ops.convert_to_numpy(n.optimizer.dynamic_scale)) for n in (resumed, straight)]
    assert scales[0] == scales[1] > 2.0**15
