"""MixedPrecision: what one callback does to a fit, and what it tells about it."""

import json
import pickle
import re

import keras
import numpy as np
import pytest
from keras import layers, ops
from probe_layer import Probe
from quick import quick

import tfmp
from tfmp import MixedPrecision, StaticLossScale
from tfmp.loss_scaling.optimizer import UnscaledLossWarning
from tfmp.loss_scaling.telemetry import NonFiniteGradientsError

CLASSES = 3


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(7)


def model(*middle, optimizer="adam", **compile_options) -> keras.Model:
    net = keras.Sequential(
        [
            layers.Input((4,)),
            layers.Dense(8, activation="relu", name="hidden"),
            *middle,
            layers.Dense(CLASSES, activation="softmax", name="out"),
        ]
    )
    net.compile(optimizer, "sparse_categorical_crossentropy", **compile_options)
    return net


def data(rows=48, poisoned=()) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((rows, 4)).astype("float32")
    y = (np.abs(x.sum(axis=1)) % CLASSES).astype("int32")
    x[list(poisoned)] = np.nan
    return x, y


def fit(net, callback, x, y, **options):
    options = {"batch_size": 8, "shuffle": False, "verbose": 0, **options}
    return net.fit(x, y, callbacks=[callback], **options)


# --- one line for any compiled model ---


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


def test_auto_leaves_a_model_alone_on_a_cpu_and_still_logs():
    net = model()
    adam = net.optimizer
    history = fit(net, MixedPrecision(), *data(), epochs=2)
    assert net.optimizer is adam
    assert history.history["loss_scale"] == [1.0, 1.0]
    assert history.history["skipped_steps"] == [0, 0]


def test_bfloat16_needs_no_scale():
    net = model()
    fit(net, MixedPrecision("mixed_bfloat16"), *data())
    assert net.optimizer.loss_scale == StaticLossScale(1.0)
    fit(net, MixedPrecision("mixed_bfloat16", loss_scale=8.0), *data())
    assert net.optimizer.loss_scale == StaticLossScale(8.0)


def test_it_learns_what_float32_learns():
    x, y = data(rows=96)
    losses = {}
    for policy in ("float32", "mixed_float16"):
        keras.utils.set_random_seed(1)
        net = model(optimizer=keras.optimizers.SGD(0.5))
        losses[policy] = fit(net, MixedPrecision(policy), x, y, epochs=10).history["loss"]
    np.testing.assert_allclose(losses["mixed_float16"], losses["float32"], rtol=0.01)


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
        assert (net.optimizer.inner_optimizer if wrapped else net.optimizer) is adam
    tfmp.revert(net)
    assert net.optimizer is adam
    assert int(ops.convert_to_numpy(adam.iterations)) == 4 * 6
    assert all(now is old for now, old in zip(net.variables, variables, strict=True))


def test_the_model_can_be_used_as_it_is_afterwards(tmp_path):
    net = model()
    x, y = data()
    fit(net, MixedPrecision("mixed_float16"), x, y)
    loss = net.evaluate(x, y, verbose=0)
    assert net.predict(x, verbose=0).dtype == np.float32
    net.save(tmp_path / "net.keras")
    loaded = keras.models.load_model(tmp_path / "net.keras")
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx(loss, rel=1e-6)
    assert isinstance(loaded.optimizer, tfmp.LossScaleOptimizer)


class Subclassed(keras.Model):
    """Its weights are made by the first call."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(8, activation="relu", name="hidden")
        self.out = layers.Dense(CLASSES, name="out")

    def call(self, x, training=None):
        return self.out(self.hidden(x["values"] if isinstance(x, dict) else x))


def unbuilt_sequential() -> keras.Model:
    return keras.Sequential(
        [layers.Dense(8, name="hidden"), layers.Dropout(0.1), layers.Dense(CLASSES, name="out")]
    )


@pytest.mark.parametrize("make", [Subclassed, unbuilt_sequential])
@pytest.mark.parametrize("steps_per_execution", quick([1, 4], 4))
@pytest.mark.parametrize(("peak", "hidden"), [(1.0, "float16"), (7e4, "float32")])
def test_a_model_without_weights_is_built_from_the_first_batch(
    make, steps_per_execution, peak, hidden
):
    x, y = data()
    x[9] = peak  # 7e4 is infinite in float16: what the first batches hold is looked at, too
    net = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile("adam", loss, steps_per_execution=steps_per_execution)
    callback = MixedPrecision("mixed_float16")
    history = fit(net, callback, x, y, batch_size=16, epochs=2)
    dtypes = {layer.name: layer.compute_dtype for layer in net.layers}
    assert (dtypes["hidden"], dtypes["out"]) == (hidden, "float32")
    assert {variable.dtype for variable in net.trainable_variables} == {"float32"}
    report = callback.report
    assert report.steps == 6
    assert len(history.history["loss_scale"]) == 2
    assert len(report.loss_scales) == 2
    found = any(finding.check == "inputs past 65504" for finding in report.findings)
    assert found == (peak > 65504)
    net.predict(x[:5], verbose=0)  # not tied to the size of that batch


def test_a_model_without_weights_takes_named_inputs():
    x, y = data()
    net = Subclassed()
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    fit(net, MixedPrecision("mixed_float16"), {"values": x}, y)
    assert net.hidden.compute_dtype == "float16"


# --- data, strategies, other callbacks ---


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


@pytest.mark.parametrize("kind", ["arrays", "PyDataset", "generator", "tf.data"])
@pytest.mark.parametrize("steps_per_execution", [1, 3])
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


@pytest.mark.parametrize("options", [{"jit_compile": True}, {"run_eagerly": True}])
def test_compiled_and_eager_steps(options):
    net = model(Probe(), **options)
    Probe.seen.clear()
    callback = MixedPrecision("mixed_float16")
    history = fit(net, callback, *data(poisoned=[9]), epochs=2)
    assert Probe.seen[-1] == "float16"
    assert history.history["skipped_steps"] == [1, 1]
    assert callback.report.steps == 12


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


def test_it_can_be_pickled_after_use(tmp_path):
    net = model()
    callback = MixedPrecision("mixed_float16", log_dir=tmp_path)
    fit(net, callback, *data(poisoned=[9]))
    again = pickle.loads(pickle.dumps(callback))
    assert (again.plan, again.report) == (callback.plan, callback.report)
    fit(model(), again, *data())
    assert (again.report.steps, again.report.skipped_steps) == (6, 0)


# --- what it tells ---


def test_skipped_steps_are_counted_per_epoch():
    callback = MixedPrecision("mixed_float16")
    history = fit(model(), callback, *data(poisoned=[9, 17]), epochs=2)
    assert history.history["skipped_steps"] == [2, 2]
    assert history.history["loss_scale"] == [2.0**13, 2.0**11]
    report = callback.report
    assert (report.steps, report.skipped_steps) == (12, 4)
    assert [reading.skipped_steps for reading in report.loss_scales] == [2, 4]
    assert [reading.step for reading in report.loss_scales] == [6, 12]
    assert report.offenders[0].variable.endswith("out/bias")
    assert report.offenders[0].first_steps == 4


def test_a_second_fit_reports_itself_alone():
    net = model()
    fit(net, MixedPrecision("mixed_float16"), *data(poisoned=[9]))
    callback = MixedPrecision("mixed_float16")
    fit(net, callback, *data())
    assert (callback.report.steps, callback.report.skipped_steps) == (6, 0)
    assert callback.report.offenders == ()


def test_a_later_training_without_the_callback_changes_no_report():
    net = model()
    callback = MixedPrecision("float32")
    fit(net, callback, *data())
    steps = callback.report.steps
    net.fit(*data(), verbose=0)
    assert callback.report.steps == steps > 0


def test_the_report_has_plan_time_and_json():
    callback = MixedPrecision("mixed_float16", keep_float32="hidden")
    fit(model(), callback, *data(), epochs=2, validation_split=0.25)
    report = callback.report
    assert [row.path for row in report.kept_float32] == ["hidden", "out"]
    assert report.seconds_per_step > 0
    assert json.loads(json.dumps(report.to_dict()))["policy"] == "mixed_float16"
    text = str(report)
    assert text.startswith("tfmp: mixed_float16 (asked for by name)\n")
    assert "loss scale 32768 to 32768 (lowest 32768, highest 32768)" in text
    assert "skipped 0 of 10 steps (0.0%)" in text
    assert "kept in float32: hidden, out" in text
    assert " ms per step" in text


def test_there_is_no_report_before_a_fit():
    assert MixedPrecision().report is None


def test_it_prints_at_the_beginning_and_the_end_as_fit_is_verbose(capsys):
    fit(model(), MixedPrecision("mixed_float16"), *data(), verbose=2, epochs=2)
    printed = capsys.readouterr().out
    assert printed.index("tfmp: mixed_float16 (asked for by name)") < printed.index("Epoch 1/2")
    assert printed.rindex("skipped 0 of 12 steps") > printed.index("loss_scale: 32768.0")
    fit(model(), MixedPrecision("mixed_float16"), *data())
    assert capsys.readouterr().out == ""


def test_readings_every_so_many_steps(tmp_path):
    callback = MixedPrecision("mixed_float16", log_every=2, log_dir=tmp_path / "logs")
    fit(model(), callback, *data(poisoned=[9]), epochs=2)
    readings = callback.report.loss_scales
    assert [(reading.epoch, reading.step) for reading in readings] == [
        (0, 2),
        (0, 4),
        (0, 6),
        (1, 8),
        (1, 10),
        (1, 12),
    ]
    lines = (tmp_path / "logs" / "tfmp.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["step"] for record in records] == [2, 4, 6, 8, 10, 12]
    assert [record["epoch"] for record in records] == [0, 0, 0, 1, 1, 1]
    assert records[0]["skipped_steps"] == 1
    assert records[0]["loss_scale"] == 2.0**14
    assert records[-1]["seconds_per_step"] > 0


def test_a_log_folder_gets_tensorboard_scalars(tmp_path):
    fit(model(), MixedPrecision("mixed_float16", log_dir=tmp_path), *data(), epochs=2)
    assert len((tmp_path / "tfmp.jsonl").read_text().splitlines()) == 2
    (events,) = tmp_path.glob("events.out.tfevents.*")
    assert b"tfmp/largest_gradient_log2" in events.read_bytes()


def test_the_device_is_read_once_per_epoch(monkeypatch):
    from tfmp.fit import recorder

    reads = []
    original = recorder.read_model_counters
    monkeypatch.setattr(
        recorder, "read_model_counters", lambda *given: reads.append(1) or original(*given)
    )
    fit(model(), MixedPrecision("mixed_float16"), *data(rows=160), epochs=3)
    assert len(reads) == 1 + 3  # the state at the beginning, and one reading an epoch


def test_keras_may_dispatch_batch_ends_asynchronously():
    if keras.backend.backend() != "jax":
        pytest.skip("Keras does that on JAX alone")
    callbacks = keras.callbacks.CallbackList([MixedPrecision("mixed_float16")], model=model())
    assert callbacks._async_train


# --- non-finite steps ---


def test_training_stops_past_so_many_skips_in_a_row_with_weights_intact():
    net = model()
    x, y = data()
    fit(net, MixedPrecision("mixed_float16"), x, y)
    weights = [ops.convert_to_numpy(variable.value) for variable in net.weights]
    x[:] = np.nan
    with pytest.raises(NonFiniteGradientsError, match="max_consecutive_skips=5") as caught:
        fit(net, MixedPrecision("mixed_float16", max_consecutive_skips=5), x, y)
    text = str(caught.value)
    assert "out/bias" in text
    assert "Loss scale: 512" in text
    assert all(f"  {number}. " in text for number in (1, 2, 3))
    for before, variable in zip(weights, net.weights, strict=True):
        np.testing.assert_array_equal(before, ops.convert_to_numpy(variable.value))


def test_skips_within_the_limit_go_on():
    callback = MixedPrecision("mixed_float16", max_consecutive_skips=6)
    history = fit(model(), callback, *data(poisoned=range(48)))
    assert history.history["skipped_steps"] == [6]


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"policy": "fp16"}, ValueError, "policy expects one of 'auto'"),
        ({"policy": 16}, TypeError, "received 16 of type int"),
        ({"loss_scale": "dynamc"}, ValueError, "Did you mean 'dynamic'?"),
        ({"log_every": 0}, ValueError, "log_every expects a whole number, 1 or more"),
        ({"log_every": "step"}, ValueError, "'epoch' reads them once an epoch"),
        ({"on_nonfinite": "stop"}, ValueError, "'report', 'raise', 'keep_float32'"),
        ({"max_consecutive_skips": 0}, ValueError, "max_consecutive_skips expects a whole number"),
        ({"max_consecutive_skips": True}, ValueError, "received True of type bool"),
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


def test_a_model_that_is_not_compiled_is_refused_by_keras():
    net = keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    with pytest.raises(ValueError, match=re.escape("You must call `compile()`")):
        fit(net, MixedPrecision("mixed_float16"), *data())


def test_a_log_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ValueError, match="log_dir expects a folder"):
        fit(model(), MixedPrecision("mixed_float16", log_dir=tmp_path / "taken"), *data())


class Hidden(keras.Sequential):
    """Its train_step takes the gradients of the unscaled loss, in another function."""

    def train_step(self, batch):
        return gradient_step(self, batch)  # no mention of super().train_step in here


def gradient_step(net, batch):
    import tensorflow as tf

    x, y = batch
    with tf.GradientTape() as tape:
        loss = net.compute_loss(y=y, y_pred=net(x, training=True))
    gradients = tape.gradient(loss, net.trainable_variables)
    net.optimizer.apply(gradients, net.trainable_variables)
    return {"loss": loss}


class Obvious(Hidden):
    def train_step(self, batch):
        return gradient_step(self, batch)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="steps are for TensorFlow")
@pytest.mark.parametrize("kind", quick([Hidden, Obvious], Hidden))
def test_a_train_step_without_scaling_is_reported_and_trains_at_scale_1(kind):
    x, y = data()[0], np.ones((48, CLASSES), "float32")

    def train(policy):
        keras.utils.set_random_seed(1)
        net = kind([layers.Input((4,)), layers.Dense(8), layers.Dense(CLASSES)])
        net.compile(keras.optimizers.SGD(0.1), "mse")
        untrained = net.evaluate(x, y, verbose=0)
        callback = MixedPrecision(policy)
        fit(net, callback, x, y, epochs=5)
        return net.evaluate(x, y, verbose=0) / untrained, net, callback

    expected, _, _ = train("float32")
    if kind is Hidden:  # seen only when it is traced, so one step is lost
        with pytest.warns(UnscaledLossWarning):
            loss, net, callback = train("mixed_float16")
    else:
        loss, net, callback = train("mixed_float16")
    assert net.optimizer.loss_scale == StaticLossScale(1.0)
    assert loss < 0.05
    assert loss == pytest.approx(expected, rel=0.3)
    checks = [finding.check for finding in callback.report.findings]
    assert checks.count("train_step without loss scaling") == 1


def test_validation_is_not_counted_in_the_time_per_step(monkeypatch):
    from tfmp.fit import recorder

    now = [0.0]
    monkeypatch.setattr(recorder.time, "perf_counter", lambda: now[0])

    def passes(seconds):
        return lambda *arguments, **options: now.__setitem__(0, now[0] + seconds)

    clock = keras.callbacks.LambdaCallback(on_train_batch_end=passes(1.0))
    clock.on_test_begin = passes(1000.0)
    callback = MixedPrecision("mixed_float16")
    model().fit(
        *data(),
        batch_size=8,
        epochs=2,
        verbose=0,
        validation_split=0.25,
        callbacks=[callback, clock],
    )
    assert callback.report.seconds_per_step == pytest.approx(1.0)
