"""Layers whose results get gradients past FP16's range from code that is kept in float32."""

import keras
import numpy as np
import pytest
from backends import only_on
from keras import layers, ops
from own_layer import Own

import tfmp


def unit(x, epsilon=1e-8):
    # Not ops.norm: on JAX its gradient in rows of zeros is no number.
    return x / ops.sqrt(ops.sum(x * x, -1, keepdims=True) + epsilon**2)


def logarithm(x):
    return 0.05 * ops.log(ops.abs(x) + 1e-8)


def angle(x):
    return ops.arccos(ops.clip(unit(x), -0.99, 0.99))


# They stay in float32, too, and their gradients fit.
FLAT = {
    "a larger epsilon": lambda x: unit(x, 1e-2),
    "a logarithm, whose gradients a loss scale below 1 keeps": logarithm,
}

BEFORE = {
    "an offset": lambda: [layers.Dense(16, name="before")],
    "a product": lambda: [layers.Dense(16, use_bias=False, name="before")],
    "two products": lambda: [
        layers.Dense(16, use_bias=False, activation="tanh", name="first"),
        *BEFORE["a product"](),
    ],
}


def model_of(function, place="layer", before="a product") -> keras.Model:
    keras.utils.set_random_seed(0)
    x = hidden = keras.Input((8,))
    for layer in BEFORE[before]():
        hidden = layer(hidden)
    hidden = (function if place == "operations" else Own(function, name="own"))(hidden)
    hidden = layers.Dense(16, activation="tanh", name="after")(hidden)
    return keras.Model(x, layers.Dense(1, name="out")(hidden))


def in_float32(model: keras.Model) -> set[str]:
    rows = tfmp.plan(model, "mixed_float16").rows
    return {row.path for row in rows if row.compute_dtype == "float32"} - {"out"}


@pytest.mark.parametrize(
    ("function", "place"),
    [(unit, "layer"), (angle, "layer"), (unit, "operations")],
)
def test_the_layer_that_feeds_steep_code_is_kept_with_it(function, place):
    own = set() if place == "operations" else {"own"}
    assert in_float32(model_of(function, place)) == {"before"} | own


@pytest.mark.parametrize("name", FLAT)
def test_a_layer_whose_gradients_fit_stays_in_16_bits(name):
    assert in_float32(model_of(FLAT[name])) == {"own"}


@pytest.mark.parametrize("activation", [None, "relu"])
def test_rows_of_zeros_do_not_come_through_an_offset(activation):
    x = keras.Input((8,))
    hidden = layers.BatchNormalization(name="norm")(layers.Dense(8, name="first")(x))
    hidden = layers.Dense(8, name="before", activation=activation)(hidden)
    hidden = Own(unit, name="own")(hidden)
    kept = in_float32(keras.Model(x, layers.Dense(1, name="out")(hidden)))
    assert kept == ({"own", "before"} if activation else {"own"})


@ops.custom_gradient
def steep(x):
    """Its gradient has a factor that is infinite in FP16."""

    def gradient(*arriving, upstream=None):
        return (arriving[0] if upstream is None else upstream) * (x * 1e9) * 1e-9

    return ops.tanh(x), gradient


def test_the_gradient_of_a_weight_counts_if_the_weight_moves_results():
    def kept(function):
        own, x = Own(lambda x: function(x, own.weight), name="own"), keras.Input((32, 8))
        own.weight = own.add_weight(shape=(1,), initializer="zeros")
        return in_float32(keras.Model(x, layers.Dense(1, name="out")(own(layers.Dense(8)(x)))))

    lost = kept(lambda x, weight: x * (1 + weight * 1e4 * 1e4 * 1e4 * 1e-4 * 1e-4 * 1e-4))
    assert lost == {"own"}
    assert kept(lambda x, weight: ops.softmax(ops.tanh(x) + weight)) == set()


def test_an_input_of_the_model_has_no_gradient():
    x = keras.Input((8,))
    hidden = Own(steep, name="behind")(layers.Dense(8)(Own(steep, name="first")(x)))
    assert in_float32(keras.Model(x, layers.Dense(1, name="out")(hidden))) == {"behind"}


@only_on("tensorflow", reason="PyTorch takes norms in float32, and JAX's have gradients of NaN")
def test_a_layer_of_keras_that_divides_by_norms():
    x = keras.Input((8,))
    before = layers.Dense(8, name="before", use_bias=False)
    hidden = layers.UnitNormalization(name="unit")(before(x))
    assert in_float32(keras.Model(x, layers.Dense(1, name="out")(hidden))) == {"before", "unit"}


def test_the_reason_has_the_size_of_the_gradients_which_bfloat16_holds():
    row = tfmp.plan(model_of(unit), "mixed_float16").rows[1]
    text = "feeds own, which gets gradients up to 9e+05, infinite in float16, on rows of zeros"
    assert row.reason == text
    assert tfmp.plan(model_of(unit), "mixed_bfloat16").rows[1].compute_dtype == "bfloat16"


def losses(model: keras.Model, *callbacks: keras.callbacks.Callback) -> list[float]:
    random = np.random.default_rng(0)
    x = random.standard_normal((256, 8)).astype("float32")
    y = x[:, :1] * x[:, 1:2] + x[:, 2:3]
    x[::7], y[::7] = 0.0, 0.5
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    fitted = model.fit(
        x, y, batch_size=8, epochs=4, verbose=0, shuffle=False, callbacks=list(callbacks)
    )
    return fitted.history["loss"]


# What hands rows of zeros on to the layer before is not in the plan: the first step tells of it.
@pytest.mark.parametrize("before", ["a product", "an offset", "two products"])
def test_rows_of_zeros_train_as_in_float32(before):
    callback = tfmp.MixedPrecision("mixed_float16")
    mixed = losses(model_of(unit, before=before), callback)
    np.testing.assert_allclose(mixed, losses(model_of(unit, before=before)), rtol=0.05)
    assert callback.report.skipped_steps == 0
