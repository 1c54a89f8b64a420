"""Families of built-in layers that differ in their rules train after a build in float32."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from quick import quick

from tfmp import plan, revert
from tfmp.loss_scaling.attach import attach_loss_scale
from tfmp.loss_scaling.telemetry import read_counters

SEQUENCE, VECTOR, VOLUME = (6, 4), (6,), (6, 6, 6, 2)


def attention(layer):
    """One input for query and value, as graphs of single-input branches want it."""
    return lambda x: layer(x, x)


def luong(layer):
    return lambda x: layer([x, x])


FAMILIES = {
    "convolutions of volumes": (
        VOLUME,
        lambda: [
            layers.Conv3D(4, 3),
            layers.Conv3DTranspose(4, 3),
            layers.MaxPooling3D(2),
            layers.AveragePooling3D(2),
            layers.GlobalAveragePooling3D(),
            # Older releases of Keras lack these.
            *(
                getattr(layers, name)(2)
                for name in ("AdaptiveMaxPooling3D", "AdaptiveAveragePooling3D")
                if hasattr(layers, name)
            ),
        ],
    ),
    "normalizations": (
        SEQUENCE,
        lambda: [
            layers.BatchNormalization(),
            layers.LayerNormalization(),
            layers.GroupNormalization(2),
            layers.RMSNormalization(),
            layers.UnitNormalization(),
            layers.SpectralNormalization(layers.Dense(4)),
        ],
    ),
    "recurrent": (
        SEQUENCE,
        lambda: [
            layers.LSTM(3),
            layers.LSTM(3, unroll=True),
            layers.GRU(3, return_sequences=True, dropout=0.2, recurrent_dropout=0.2),
            layers.SimpleRNN(3),
            layers.Bidirectional(layers.LSTM(3)),
            layers.TimeDistributed(layers.Dense(3)),
            layers.RNN([layers.GRUCell(3), layers.LSTMCell(2)]),
        ],
    ),
    "attention": (
        SEQUENCE,
        lambda: [
            attention(layers.MultiHeadAttention(2, 4, dropout=0.1)),
            attention(layers.GroupQueryAttention(4, 4, 2)),
            luong(layers.Attention(use_scale=True)),
            luong(layers.AdditiveAttention()),
        ],
    ),
}


def model_of(shape, branches) -> keras.Model:
    inputs = keras.Input(shape)
    outputs = [layers.Dense(2)(layers.Flatten()(branch(inputs))) for branch in branches]
    return keras.Model(inputs, layers.Add(name="out")(outputs) if outputs[1:] else outputs[0])


def values(model, x) -> np.ndarray:
    return ops.convert_to_numpy(model(x, training=False))


@pytest.mark.parametrize("family", quick(FAMILIES, *(set(FAMILIES) - {"recurrent"})))
def test_a_family(family):
    policy = "mixed_float16"
    shape, make = FAMILIES[family]
    model = model_of(shape, make())
    model.compile("sgd", "mse", run_eagerly=True)  # quicker than tracing for one step
    x = np.random.default_rng(0).random((2, *shape)).astype("float32")
    expected = values(model, x)
    variables, dtypes = model.variables, [variable.dtype for variable in model.variables]

    made = plan(model, policy).apply()
    narrow = values(made, x)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(narrow, expected, atol=8 * 2.0**-10 * scale)
    revert(model)
    np.testing.assert_array_equal(values(model, x), expected)

    plan(model, policy).apply()
    attach_loss_scale(model, 8.0)
    loss = model.train_on_batch(x, np.zeros((2, 2), "float32"))
    assert np.isfinite(np.asarray(loss)).all()
    assert read_counters(model.optimizer, model).skipped_steps == 0
    assert all(now is before for now, before in zip(model.variables, variables, strict=True))
    assert [variable.dtype for variable in model.variables] == dtypes


@pytest.mark.skipif(not hasattr(layers, "ReversibleEmbedding"), reason="this Keras has none")
def test_lookups():
    inputs = keras.Input((5,), dtype="int32")
    x = layers.Embedding(20, 4, mask_zero=True)(inputs)
    tied = layers.ReversibleEmbedding(20, 4)
    logits = tied(layers.Dense(4)(tied(inputs)), reverse=True)
    outputs = [layers.LSTM(3)(x), layers.Flatten()(logits)]
    model = keras.Model(inputs, layers.Dense(2)(layers.Concatenate()(outputs)))
    ids = np.random.default_rng(0).integers(0, 20, (3, 5))
    expected = values(model, ids)
    plan(model, "mixed_bfloat16").apply()
    np.testing.assert_allclose(values(model, ids), expected, atol=0.05)


def test_float64_runs_what_was_built_in_float32():
    branches = [make()[0] for shape, make in FAMILIES.values() if shape == SEQUENCE]
    branches += [layers.GRU(3), layers.Conv1D(4, 3), layers.PReLU(), layers.LSTM(3)]
    model = model_of(SEQUENCE, branches)
    x = np.random.default_rng(0).random((2, *SEQUENCE)).astype("float32")
    expected = values(model, x)
    made = plan(model, "float64")
    made.apply()
    assert {row.compute_dtype for row in made.rows} == {"float64"}
    np.testing.assert_allclose(values(model, x), expected, atol=1e-5)
    assert {variable.dtype for variable in model.trainable_variables} == {"float64"}


def test_float64_is_refused_where_jax_would_compute_in_float32(monkeypatch):
    model = model_of(VECTOR, [layers.Dense(2)])
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="Set the environment variable JAX_ENABLE_X64=1"):
        plan(model, "float64")
