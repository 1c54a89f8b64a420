"""preflight: each check finds what it is for, says the fix, and is silent otherwise."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from own_layer import OwnModel
from stacks import stack

from tfmp import MixedPrecision, plan
from tfmp.fit.preflight import (
    PlannedModel,
    kernels_in_float32,
    preflight_findings,
)
from tfmp.precision import layer_tree


def chain(*middle, optimizer="sgd") -> keras.Model:
    out = layers.Dense(2, name="out")
    return stack(*middle, out, inputs=(8,), optimizer=optimizer, loss="mse")


def findings(model, policy="mixed_float16") -> dict:
    return {finding.check: finding for finding in preflight_findings(model, plan(model, policy))}


def test_a_model_without_faults_has_no_findings_and_float32_has_none():
    assert findings(chain(layers.Dense(16), layers.BatchNormalization())) == {}
    assert findings(chain(layers.Dense(7)), "float32") == {}


def test_a_plan_that_keeps_every_layer_in_float32_says_so():
    model = stack(8, inputs=(8,), optimizer="adam", loss="mse")
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
    model = stack(both, 2, inputs=(4, 8), optimizer="sgd", loss="mse")
    made = plan(model, "mixed_float16")
    wide = [
        replace(row, compute_dtype="float32", reason=row.reason.replace("base policy", "no kernel"))
        for row in made.rows
    ]
    planned = PlannedModel(model, layer_tree.walk(model), replace(made, rows=tuple(wide)))
    (found,) = kernels_in_float32(planned)
    assert "this reason: no kernel" in found.message


STEP = """
class Own(keras.Sequential):
    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self.compute_loss(data[0], data[1], self(data[0]))
            scaled = {scaled}
        gradients = tape.gradient(scaled, self.trainable_variables)
        gradients = {changed}
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {{"loss": loss}}
"""


def fit_own(scaled="self.optimizer.scale_loss(loss)", changed="gradients", scale=64.0, rows=4):
    """The report of a training with a step that has no source, and the change of a weight."""
    names = {"keras": keras, "tf": tf, "__name__": "gone"}
    exec(STEP.format(scaled=scaled, changed=changed), names)
    model = names["Own"]([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    before = model.get_weights()[0]
    x = np.random.default_rng(0).uniform(0.0, 0.01, (8, 8)).astype("float32")
    callback = MixedPrecision("mixed_float16", loss_scale=scale)
    model.fit(x, np.ones((8, 2)), batch_size=rows, verbose=0, callbacks=[callback])
    return callback.report, abs(model.get_weights()[0] - before).max()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a step of TensorFlow's")
@pytest.mark.parametrize(
    ("scaled", "scales"),
    [
        ("self.optimizer.scale_loss(loss)", True),
        ("loss * self.optimizer.dynamic_scale", True),
        ("loss", False),
    ],
)
def test_an_own_step_is_traced_before_it_trains(scaled, scales):
    report, moved = fit_own(scaled, rows=8)  # one step
    assert moved > 1e-3
    found = [finding.check for finding in report.findings]
    assert ("train_step without loss scaling" in found) is not scales


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a step of TensorFlow's")
@pytest.mark.parametrize(
    ("changed", "size"),
    [
        ("tf.clip_by_global_norm(gradients, 0.5)[0]", 0.5),
        ("[tf.clip_by_value(one, -0.001, 0.001) for one in gradients]", 0.001),
        ("tf.clip_by_global_norm(self.optimizer.unscale(gradients), 0.5)[0]", None),
        ("gradients", None),
    ],
)
def test_a_step_that_clips_scaled_gradients_is_told(changed, size):
    report, _ = fit_own(changed=changed, scale=2.0**15)
    found = {finding.check: finding for finding in report.findings}
    assert ("clipping of scaled gradients" in found) is (size is not None)
    if size:
        message = found["clipping of scaled gradients"].message
        assert message.startswith(f"Own.train_step clips gradients to {size:g} before it")


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
    assert found.message.endswith(
        "d12 units 12 (padded: 16), d10 units 10 (padded: 16), d9 units 9 (padded: 16) and 1 more"
    )
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
    assert before_summary.count("first units 12") == 1
    assert [finding.check for finding in callback.report.findings] == ["sizes"]


# --- failures of the first step ---


class Fussy(OwnModel):
    """Its own loss fails if a layer computes in float16."""

    def compute_loss(self, x=None, y=None, y_pred=None, *others, **options):
        if self.body.compute_dtype == "float16":
            raise TypeError("cannot subtract: expected a half tensor but is a float tensor")
        return super().compute_loss(x, y, y_pred, *others, **options)


def test_a_first_step_that_fails_over_dtypes_says_what_to_do():
    model = Fussy(lambda own, x: own.out(own.body(x)), body=2, out=2)
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
