"""rules: which layers stay in float32, in which order the rules speak, and what they say."""

import keras
import pytest
from keras import layers, ops
from own_layer import OwnModel
from stacks import stack

from tfmp.precision.policy import plan


def chain(*middle, shape=(8,), dtype="float32") -> keras.Model:
    """A model with the given layers between its input and a float32 output layer."""
    inputs = x = keras.Input(shape, dtype=dtype)
    for layer in middle:
        x = layer(x)
    return keras.Model(inputs, layers.Dense(2, name="out")(layers.Flatten()(x)))


def row(model, path, policy="mixed_float16", **options):
    return next(row for row in plan(model, policy, **options).rows if row.path == path)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (layers.Rescaling(1 / 255), "takes raw values, which may not fit in 16 bits"),
        (layers.Normalization(mean=0.0, variance=1.0), "takes raw values"),
        (layers.UnitNormalization(), "sums squares; its epsilon 1e-12 is 0 in FP16"),
        (layers.SpectralNormalization(layers.Dense(4)), "power iteration"),
        (layers.Softmax(), "sums exponentials"),
        (layers.ActivityRegularization(1e-3), "its activity regularizer adds to the loss"),
        (layers.Dense(4, activity_regularizer="l2"), "its activity regularizer adds to the loss"),
    ],
)
def test_delicate_layers_stay_in_float32(layer, reason):
    layer = type(layer).from_config({**layer.get_config(), "name": "it"})
    it = row(chain(layer), "it", "mixed_bfloat16")
    assert (it.policy, it.compute_dtype) == ("float32", "float32")
    assert it.reason.startswith(reason)


def test_activations_that_are_exponentials_stay_in_float32():
    it = row(chain(layers.Conv1D(4, 1, activation=ops.cosh, name="it"), shape=(6, 8)), "it")
    assert it.reason.startswith("is infinite or NaN in float16 on numbers x ")


def test_an_activation_without_a_16_bit_kernel_stays_in_float32():
    it = row(chain(layers.Dense(4, activation="sparsemax", name="it")), "it")
    assert it.reason.startswith("failed a dry run in float16: ")


@pytest.mark.parametrize(
    "layer",
    [
        layers.Activation(keras.ops.silu, name="it"),
        layers.Dense(4, activation="sigmoid", name="it"),
        layers.Activation("softmax", name="it"),
    ],
)
def test_other_layers_get_the_base_policy(layer):
    it = row(chain(layer), "it")
    assert (it.policy, it.compute_dtype, it.reason) == ("mixed_float16", "float16", "base policy")
    assert it.variable_dtype == "float32"


def test_an_embedding_gains_nothing_and_keeps_sparse_gradients():
    it = row(chain(layers.Embedding(9, 4, name="it"), dtype="int32"), "it")
    assert it.policy == "float32"
    assert it.reason == "a lookup gains nothing, and its gradient stays sparse"


def test_an_embedding_that_operators_add_to_16_bits_goes_with_them():
    def tokens(own, ids):
        x = own.table(ids)
        return own.out(x + own.hidden(x))

    model = OwnModel(tokens, table=layers.Embedding(9, 4, name="table"), hidden=4, out=2)
    model(keras.ops.zeros((2, 3), "int32"))
    rows = {row.path: row.compute_dtype for row in plan(model, "mixed_float16").rows}
    assert rows == {"/": "float32", "table": "float16", "hidden": "float16", "out": "float32"}
    assert row(model, "table", keep_float32="table").compute_dtype == "float32"


def test_the_layers_of_a_pipeline_are_decided_one_by_one():
    model = chain(layers.Pipeline([layers.Rescaling(0.1), layers.Dense(4)], name="it"))
    it, raw, dense = plan(model, "mixed_float16").rows[1:4]
    assert (it.compute_dtype, it.reason) == ("float32", f"hands raw values on to {raw.path}")
    assert (raw.compute_dtype, dense.compute_dtype) == ("float32", "float16")


def test_a_layer_on_integers_or_strings_is_left_alone():
    it = row(chain(layers.Hashing(9, name="it"), layers.Embedding(9, 4), dtype="int32"), "it")
    assert it.policy is None
    assert it.reason == "works on int64, not on floats"


@pytest.mark.parametrize(
    "head",
    [
        [layers.Dense(2, name="it")],
        [layers.Dense(2), layers.Activation("softmax", name="it")],
        [layers.LSTM(3, name="it")],
    ],
    ids="dense softmax lstm".split(),
)
def test_output_layers_stay_in_float32(head):
    model = keras.Sequential([layers.Input((4, 4)), *head])
    it = row(model, "it")
    assert it.policy == "float32"
    assert it.reason == "output: the loss sees it"


def test_what_a_builtin_layer_makes_for_itself_follows_it():
    attention = layers.MultiHeadAttention(2, 4, name="attention")
    inputs = keras.Input((5, 8))
    model = keras.Model(inputs, layers.Dense(2, name="out")(attention(inputs, inputs)))
    rows = {row.path: row for row in plan(model, "mixed_bfloat16").rows}
    assert rows["attention/query"].reason == "part of attention"
    parts = [rows[path] for path in rows if path.startswith("attention/")]
    assert {part.compute_dtype for part in parts} == {"bfloat16"}
    assert "Softmax" in {part.layer_class for part in parts}
    kept = {row.path: row for row in plan(model, "mixed_bfloat16", keep_float32="attention").rows}
    assert {kept[path].policy for path in kept if path.startswith("attention")} == {"float32"}


def test_a_container_does_not_follow_what_its_layers_make_for_themselves():
    class Cell(layers.Layer):
        units = state_size = 8

        def call(self, x, states):
            return keras.ops.exp(x), states

    model = chain(layers.RNN(Cell(), name="it"), shape=(6, 8))
    assert row(model, "it").reason.startswith("is infinite or NaN in float16")
    assert row(model, "/").reason == "base policy"


def test_a_wrapped_layer_decides_for_its_wrapper():
    model = chain(
        layers.TimeDistributed(layers.UnitNormalization(name="inside"), name="it"), shape=(3, 4)
    )
    assert row(model, "it").reason.startswith("sums squares")
    assert row(model, "it/inside").policy == "float32"


def test_a_float32_layer_among_mixed_ones_was_made_so_on_purpose():
    before, behind = (layers.Dense(4, dtype="mixed_float16") for _ in range(2))
    it, out = (layers.Dense(2, dtype="float32", name=name) for name in ("it", "out"))
    model = stack(before, it, behind, out)
    assert row(model, "it").reason == "was float32 in a model already mixed"
    assert row(model, "out").reason == "output: the loss sees it"


def test_a_subclassed_model_hands_raw_values_on_uncast():
    scale = layers.Rescaling(1e-5, name="scale")
    model = OwnModel(lambda own, x: own.out(own.scale(x)), scale=scale, out=2)
    model(ops.ones((1, 4)))
    assert row(model, "/").reason == "hands raw values on to scale"
    plan(model, "mixed_float16").apply()
    raw = ops.full((1, 4), 70000.0)  # infinite in FP16
    assert keras.ops.convert_to_numpy(ops.isfinite(model(raw))).all()


@pytest.mark.parametrize("policy", ["float32", "float64"])
def test_wide_policies_protect_nothing_that_needs_no_protection(policy):
    model = chain(layers.Softmax(name="it"), layers.Dense(4, name="hidden"))
    assert {row(model, path, policy).policy for path in ("it", "hidden", "out")} == {policy}
