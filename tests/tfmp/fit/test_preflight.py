"""preflight: each check finds what it is for, says the fix, and is silent otherwise."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tfmp import LossScaleOptimizer, MixedPrecision, plan
from tfmp.fit.preflight import (
    PlannedModel,
    kernels_in_float32,
    preflight_findings,
)
from tfmp.precision import layer_tree


def chain(*middle, optimizer="sgd") -> keras.Model:
    model = keras.Sequential([layers.Input((8,)), *middle, layers.Dense(2, name="out")])
    model.compile(optimizer, "mse")
    return model


def findings(model, policy="mixed_float16") -> dict:
    return {finding.check: finding for finding in preflight_findings(model, plan(model, policy))}


def test_a_model_without_faults_has_no_findings_and_float32_has_none():
    assert findings(chain(layers.Dense(16), layers.BatchNormalization())) == {}
    assert findings(chain(layers.Dense(7)), "float32") == {}


def test_a_plan_that_keeps_every_layer_in_float32_says_so():
    model = keras.Sequential([layers.Input((8,)), layers.Dense(8)])
    model.compile("adam", "mse")
    (found,) = findings(model).values()
    assert found.message.startswith("0 of 1 layers with kernels multiply in 16 bits: dense")
    assert " stays in float32, mostly for this reason: output: the loss sees it" in found.message


class Shared(layers.Layer):
    """A mixture of experts whose shares TensorFlow multiplies by float32 numbers."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 8), name="kernel")

    def call(self, x):
        shares = tf.constant(np.linspace(0.5, 1.0, 8, dtype="float32"))
        return tf.matmul(x, self.kernel) * self.join(shares, x)

    def join(self, shares, x):
        return shares


class Cast(Shared):
    def join(self, shares, x):
        return tf.cast(shares, x.dtype)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow's operators")
@pytest.mark.parametrize(("kind", "is_found"), [(Shared, True), (Cast, False)])
def test_a_layer_whose_raw_operators_fail_in_16_bits_is_told(kind, is_found):
    found = findings(chain(layers.Dense(8), kind(name="experts"), layers.Dense(8)))
    assert list(found) == ["kernels in float32"] * is_found
    if is_found:
        assert "experts, out stay in float32" in found["kernels in float32"].message
        assert "failed a dry run" in found["kernels in float32"].message
        assert "keras.ops.cast(c, x.dtype)" in found["kernels in float32"].fix


def test_the_reason_of_parts_is_that_of_the_layer_that_made_them():
    both = layers.Bidirectional(layers.LSTM(8), name="both")
    model = keras.Sequential([layers.Input((4, 8)), both, layers.Dense(2)])
    model.compile("sgd", "mse")
    made = plan(model, "mixed_float16")
    wide = [
        replace(row, compute_dtype="float32", reason=row.reason.replace("base policy", "no kernel"))
        for row in made.rows
    ]
    planned = PlannedModel(model, layer_tree.walk(model), replace(made, rows=tuple(wide)))
    (found,) = kernels_in_float32(planned)
    assert "this reason: no kernel" in found.message


def test_mixed_layers_that_were_trained_without_scaling():
    model = chain(layers.Dense(8, dtype="mixed_float16", name="half"))
    assert findings(model) == {}  # it has taken no step, as a clone of a planned model
    model.optimizer.iterations.assign(1)
    found = findings(model)["unwrapped optimizer"]
    assert "half already computed in float16, but the optimizer did not scale" in found.message
    assert "tfmp.LossScaleOptimizer(optimizer)" in found.fix
    wrapped = chain(
        layers.Dense(8, dtype="mixed_float16"), optimizer=LossScaleOptimizer(keras.optimizers.SGD())
    )
    assert findings(wrapped) == {}


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.hidden, self.out = layers.Dense(8, name="hidden"), layers.Dense(2, name="out")

    def call(self, x):
        return self.out(self.hidden(x))


def test_layers_that_a_file_holds_no_dtypes_for(tmp_path):
    model = Subclassed()
    model.compile("sgd", "mse")
    x, y = np.ones((4, 8)), np.ones((4, 2))
    model.fit(x, y, verbose=0, callbacks=[MixedPrecision("mixed_float16", keep_float32="hidden")])
    assert "float32 since loading" not in findings(model)  # asked for
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.hidden.compute_dtype == "float32"
    found = findings(loaded)["float32 since loading"]
    assert "but hidden computed in float32 until now" in found.message
    assert found.fix.endswith("tfmp.plan(model, 'mixed_float16').apply()")
    plan(loaded, "mixed_float16").apply()
    assert "float32 since loading" not in findings(loaded)


class Forgetful(keras.Sequential):
    def train_step(self, *arguments):
        raise NotImplementedError


class Careful(keras.Sequential):
    def train_step(self, *arguments):
        self.optimizer.scale_loss(1.0)
        raise NotImplementedError


class ByHand(keras.Sequential):
    def train_step(self, *arguments):
        return 1.0 * self.optimizer.dynamic_scale


def scaled_by(optimizer, loss):
    return optimizer.scale_loss(loss)


class Helped(keras.Sequential):
    def train_step(self, *arguments):
        scaled_by(self.optimizer, 1.0)
        raise NotImplementedError


class Delegating(keras.Sequential):
    def train_step(self, *arguments):
        return super().train_step(*arguments)


class Guided(keras.Sequential):
    """As in Keras's guide for JAX, whose own method of this name would scale the loss."""

    def compute_loss_and_updates(self, *arguments):
        raise NotImplementedError

    def train_step(self, *arguments):
        return self.compute_loss_and_updates(*arguments)


class GuidedByKeras(Guided):
    def compute_loss_and_updates(self, *arguments):
        return super().compute_loss_and_updates(*arguments)


@pytest.mark.parametrize(
    ("kind", "is_found"),
    [
        (Forgetful, True),
        (Careful, False),
        (ByHand, False),
        (Helped, False),
        (Delegating, False),
        (Guided, True),
        (GuidedByKeras, False),
    ],
)
def test_a_train_step_that_forgets_to_scale(kind, is_found):
    model = kind([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    model.compile("sgd", "mse")
    found = findings(model)
    assert ("train_step without loss scaling" in found) is is_found
    if is_found:
        finding = found["train_step without loss scaling"]
        assert f"{kind.__name__}.train_step never calls scale_loss, so that" in finding.message
        assert "self.optimizer.scale_loss(loss)" in finding.fix


def test_every_optimizer_of_a_step_that_scales_nothing_is_named():
    model = Forgetful([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    model.compile("sgd", "mse")
    model.first, model.second = keras.optimizers.SGD(), keras.optimizers.SGD()
    fix = findings(model)["train_step without loss scaling"].fix
    assert "self.first.scale_loss(loss) and self.second.scale_loss(loss)" in fix
    assert "_self_" not in fix  # TensorFlow's own notes of a model's attributes


def test_a_helper_whose_module_is_gone_is_left_to_the_first_step(monkeypatch):
    monkeypatch.setattr(scaled_by, "__module__", "gone")
    model = Helped([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    model.compile("sgd", "mse")
    assert "train_step without loss scaling" not in findings(model)


STEP = """
class Own(keras.Sequential):
    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self.compute_loss(data[0], data[1], self(data[0]))
            scaled = {scaled}
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {{"loss": loss}}
"""


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a step of TensorFlow's")
@pytest.mark.parametrize(
    ("scaled", "scales"),
    [
        ("self.optimizer.scale_loss(loss)", True),
        ("loss * self.optimizer.dynamic_scale", True),
        ("loss", False),
    ],
)
def test_a_step_without_source_is_traced_before_it_trains(scaled, scales):
    names = {"keras": keras, "tf": tf, "__name__": "gone"}
    exec(STEP.format(scaled=scaled), names)
    model = names["Own"]([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    before, x = model.get_weights()[0], np.full((4, 8), 0.01, "float32")
    callback = MixedPrecision("mixed_float16", loss_scale=64.0)
    model.fit(x, np.ones((4, 2)), verbose=0, callbacks=[callback])
    assert abs(model.get_weights()[0] - before).max() > 1e-3
    found = [finding.check for finding in callback.report.findings]
    assert ("train_step without loss scaling" in found) is not scales


class Parted(keras.Sequential):
    """Two optimizers, of which Keras's fit on JAX carries neither's state."""

    def train_step(self, *arguments):
        for optimizer in (self.first, self.second):
            optimizer.scale_loss(1.0)
        self.first.stateless_apply(*arguments)
        self.second.apply(*arguments)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_optimizers_whose_state_fit_leaves_behind(backend, monkeypatch):
    model = Parted([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    model.compile("sgd")
    model.first, model.second = keras.optimizers.SGD(), keras.optimizers.SGD()
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    found = findings(model).get("optimizers with states of their own")
    assert (found is not None) is (backend == "jax")
    if found:
        assert "The state of self.first and self.second in Parted.train_step" in found.message


class Clipping(keras.Sequential):
    def train_step(self, *arguments):
        scaled = self.optimizer.scale_loss(1.0)
        return self.clipped(scaled, tf.clip_by_global_norm)


class Unscaling(keras.Sequential):
    def train_step(self, *arguments):
        gradients = self.optimizer.unscale(self.optimizer.scale_loss(1.0))
        return self.clipped(gradients, tf.clip_by_norm)


class ClippingValues(keras.Sequential):
    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self.optimizer.scale_loss(self.compute_loss(*data))
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply([tf.clip_by_value(g, -1.0, 1.0) for g in gradients])


class UnscalingByHand(ClippingValues):
    def train_step(self, data):
        loss = self.optimizer.scale_loss(self.compute_loss(*data))
        gradients = [g / self.optimizer.dynamic_scale for g in self.tape.gradient(loss, [])]
        self.optimizer.apply([tf.clip_by_value(g, -1.0, 1.0) for g in gradients])


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (Clipping, "clip_by_global_norm"),
        (ClippingValues, "clip_by_value"),
        (Unscaling, None),
        (UnscalingByHand, None),
    ],
)
def test_a_train_step_that_clips_scaled_gradients(kind, call):
    model = kind([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    model.compile("sgd", "mse")
    found = findings(model)
    assert ("clipping of scaled gradients" in found) is (call is not None)
    if call:
        finding = found["clipping of scaled gradients"]
        assert finding.message.startswith(f"{kind.__name__} calls {call} on gradients that are st")
        assert ("clipvalue" in finding.fix) is (kind is ClippingValues)


def test_a_note_of_the_plan_is_a_finding():
    model = chain(layers.Dense(8))
    made = replace(plan(model, "mixed_float16"), notes=("a loss in 16 bits: cast it",))
    (found,) = preflight_findings(model, made)
    assert (found.check, found.message, found.fix) == ("plan", "a loss in 16 bits", "Cast it")


def test_weights_that_are_no_float32_masters():
    model = chain(layers.Dense(8, name="pure"))
    assert findings(model, "float16")["16-bit weights"].message == (
        "The weights of pure are float16: updates smaller than their spacing are lost"
    )


def test_sizes_that_are_no_multiples_of_8_are_one_finding():
    model = chain(*(layers.Dense(units, name=f"d{units}") for units in (16, 12, 10, 9, 7)))
    found = findings(model)["sizes"]
    assert found.message.endswith("d12 (units=12), d10 (units=10), d9 (units=9) and 1 more")
    assert "out" not in found.message  # float32: no Tensor Cores there


@pytest.mark.parametrize(("kept", "status"), [(["a", "b"], "warning"), (["a"], "note"), ([], None)])
def test_kernels_that_stay_in_float32_are_counted(kept, status):
    model = chain(layers.Dense(8, name="a"), layers.Dropout(0.1), layers.Dense(8, name="b"))
    found = preflight_findings(model, plan(model, "mixed_float16", keep_float32=kept))
    assert [finding.status for finding in found] == ([status] if status else [])
    if kept:
        assert found[0].message.startswith(f"{2 - len(kept)} of 3 layers with kernels")
        assert found[0].message.endswith("mostly for this reason: keep_float32: a")


# --- in fit ---


def test_fit_says_each_finding_once_and_puts_it_in_the_report(capsys):
    model = chain(layers.Dense(12, name="first"))
    callback = MixedPrecision("mixed_float16")
    x = np.full((16, 8), 1e5, "float32")
    model.fit(x, np.ones((16, 2)), batch_size=4, epochs=3, verbose=2, callbacks=[callback])
    printed = capsys.readouterr().out
    before_summary = printed[: printed.rindex("tfmp: mixed_float16")]
    assert before_summary.count("Input x reaches 100000") == 1
    assert before_summary.count("first (units=12)") == 1
    assert [finding.check for finding in callback.report.findings] == ["sizes"]


# --- failures of the first step ---


class Fussy(keras.Model):
    """Its own loss fails if a layer computes in float16."""

    def __init__(self):
        super().__init__()
        self.body = layers.Dense(2, name="body")
        self.out = layers.Dense(2, name="out")

    def call(self, x):
        return self.out(self.body(x))

    def compute_loss(self, x=None, y=None, y_pred=None, *others, **options):
        if self.body.compute_dtype == "float16":
            raise TypeError("cannot subtract: expected a half tensor but is a float tensor")
        return super().compute_loss(x, y, y_pred, *others, **options)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="TensorFlow has every state")
@pytest.mark.parametrize("built", [False, True])
def test_a_step_that_fails_in_float32_as_well_is_not_laid_on_mixed_precision(built):
    model = Parted([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    optimizer = keras.optimizers.SGD()
    model.compile(optimizer)
    model.first, model.second = keras.optimizers.SGD(), keras.optimizers.SGD()
    if built:
        optimizer.build(model.layers[0].trainable_variables)
    x = np.ones((4, 8), "float32")
    with pytest.raises(Exception) as caught:  # noqa: PT011 Keras's own, or ours
        model.fit(x, x[:, :2], verbose=0, callbacks=[MixedPrecision("mixed_float16")])
    text = "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "takes the state of one optimizer through its steps" in text
    assert "keep_float32" not in text


def test_a_first_step_that_fails_over_dtypes_says_what_to_do():
    model = Fussy()
    x = np.ones((4, 2), "float32")
    model(x)
    model.compile("sgd", "mse")
    before = model.get_weights()
    with pytest.raises(TypeError) as caught:
        model.fit(x, x, verbose=0, callbacks=[MixedPrecision("mixed_float16")])
    (note,) = (note for note in caught.value.__notes__ if note.startswith("tfmp: "))
    assert "failed under the plan mixed_float16; no weight has changed" in note
    assert "keep_float32=" in note
    assert all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))


def test_a_decay_that_rounds_to_1_stops_adam():
    model = chain(layers.Dense(16))
    model.compile(keras.optimizers.Adam(), "mse")
    found = findings(model, "bfloat16")["decay of 1"]
    assert "beta_2=0.999 of Adam is 1 in bfloat16" in found.message
    assert "decay of 1" not in findings(model, "float16")
    assert "decay of 1" not in findings(model, "mixed_bfloat16")
    model.compile(keras.optimizers.Adam(beta_2=0.99), "mse")
    assert "decay of 1" not in findings(model, "bfloat16")
