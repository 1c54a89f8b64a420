"""Inputs past 65504, and sums of them: the layers that they overflow in go to float32."""

import re

import keras
import numpy as np
import pytest
from keras import layers, ops
from own_layer import OwnModel
from probed_fits import EAGER
from quick import quick

from tfmp import MixedPrecision, plan
from tfmp.fit.large_inputs import widen_readers


def data(peak):
    x = np.random.default_rng(0).uniform(0, peak, (32, 8)).astype("float32")
    x[:, 0] = peak
    return x, x.mean(axis=1, keepdims=True) / peak


def train(model, peak=100_000.0, epochs=2, keep=None):
    model.compile(keras.optimizers.Adam(1e-3), "mse", **EAGER)
    watch = MixedPrecision("mixed_float16", keep=keep)
    model.fit(*data(peak), batch_size=16, epochs=epochs, verbose=0, callbacks=[watch])
    return watch.report


def deep(*first) -> keras.Model:
    names = ("first", "second", "third")
    dense = [layers.Dense(8, name=name) for name in names]
    return keras.Sequential([layers.Input((8,)), *first, *dense, layers.Dense(1, name="out")])


def own() -> keras.Model:
    """A model whose inputs are cast to its own dtype before `call`."""
    first = layers.Dense(8, kernel_initializer="identity", name="first")
    return OwnModel(lambda own, x: own.out(own.late(own.first(x))), first=first, late=8, out=1)


def graph() -> keras.Model:
    inputs = keras.Input((8,))
    x = layers.Dense(8, kernel_initializer="identity", name="first")(ops.abs(inputs))
    return keras.Model(inputs, layers.Dense(1, name="out")(layers.Dense(8, name="late")(x)))


@pytest.mark.parametrize("make", quick([own, graph], graph))
def test_layers_that_large_inputs_overflow_in_are_moved_before_the_first_step(make):
    model = make()
    report = train(model)
    assert report.skipped_steps < report.steps
    assert np.isfinite(report.curves["loss"]).all()
    assert model.get_layer("first").compute_dtype == "float32"
    assert report.events[0].text.startswith("Input x reaches 100000, past 65504. Moved to float32 ")
    assert "put a Rescaling or Normalization layer first" in report.events[0].text


def test_inputs_whose_sums_are_past_65504():
    model = deep()
    model.get_layer("first").set_weights([np.ones((8, 8)), np.zeros(8)])
    report = train(model, peak=20_000.0)
    (event,) = report.events
    assert event.text.startswith("The first step was not finite. The output of layer first (Dense)")
    assert model.get_layer("first").compute_dtype == "float32"
    assert report.skipped_steps < report.steps


@pytest.mark.parametrize(("factor", "dtype"), [(1e-5, "float16"), (1e6, "float32")])
def test_layers_behind_a_rescaling_get_what_it_hands_on(factor, dtype):
    model = deep(layers.Rescaling(factor, name="scaled"))
    report = train(model, peak=1e5 if factor < 1 else 1.0)
    assert model.get_layer("first").compute_dtype == dtype
    rows = {row.path: row.compute_dtype for row in report.layers}
    assert rows["first"] == dtype  # as they are at the end
    assert ("first" in [row.path for row in report.kept_float32]) == (dtype == "float32")
    texts = [event.text for event in report.events]
    assert len(texts) == (factor > 1)
    if texts:
        assert re.match(r"The input of first reaches \S+, past 65504\. Moved to float32", texts[0])
        assert report.skipped_steps < report.steps


# --- which inputs ---


def overflow_of(model, batch):
    made = plan(model, "mixed_float16")
    made.apply()
    model.compile("sgd", "mse")
    return "".join(widen_readers(model, made, batch)[:1]).partition(". Moved")[0]


def batch(largest):
    x = np.ones((4, 8), "float32")
    x[1, 2] = -largest
    return ops.convert_to_tensor(x), ops.zeros((4, 2))


def test_one_large_number_counts_and_2047_fits():
    assert overflow_of(deep(), batch(70000.0)) == "Input x reaches 70000, past 65504"
    assert not overflow_of(deep(), batch(2047.0))


@pytest.mark.parametrize(("dtype", "is_large"), [("float32", True), ("int32", False)])
def test_whole_numbers_may_be_large_if_they_stay_whole(dtype, is_large):
    inputs = [keras.Input((8,), dtype=dtype, name="ids"), keras.Input((8,), name="other")]
    looked_up = layers.Embedding(10**5, 2)(inputs[0]) if dtype == "int32" else inputs[0]
    x = layers.Concatenate()([layers.Flatten()(looked_up), inputs[1]])
    model = keras.Model(inputs, layers.Dense(2)(layers.Dense(8)(x)))
    x = {"other": ops.zeros((4, 8)), "ids": ops.full((4, 8), 70000, dtype="int32")}
    assert overflow_of(model, (x, ops.zeros((4, 2)))).startswith("Input ids") is is_large


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow's types")
def test_sparse_and_ragged_inputs():
    import tensorflow as tf

    dense, y = batch(70000.0)
    for x in (tf.sparse.from_dense(dense), tf.RaggedTensor.from_tensor(dense)):
        assert overflow_of(deep(), (x, y)).startswith("Input x reaches 70000")
    assert not overflow_of(deep(), (tf.sparse.from_dense(tf.zeros((4, 8))), y))


def test_the_reader_inside_a_nested_model_is_moved():
    model = deep(keras.Sequential([layers.Input((8,)), layers.Dense(8, name="deep")], name="inner"))
    assert "before the first step: inner/deep" in train(model).events[0].text
