"""Operations of a graph that leave the range of FP16 make float32 of the layer that feeds them."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from own_layer import Own
from stacks import stack

from tfmp import plan


def model_of(function, *middle, shape=(8,)) -> keras.Model:
    """A graph with a function's operations behind a layer `before` and further layers."""
    x = inputs = keras.Input(shape)
    for layer in (layers.Dense(8, name="early"), layers.Dense(8, name="before"), *middle):
        x = layer(x)
    x = layers.Dense(8, name="behind")(function(x))
    return keras.Model(inputs, layers.Dense(2, name="out")(x))


def rows_of(model) -> dict:
    return {row.path: row for row in plan(model, "mixed_float16").rows}


def root_mean_square(x):
    return x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-6)


HARMFUL = {
    "root_mean_square": root_mean_square,
    "exp": ops.exp,
    "infinite slopes": lambda x: root_mean_square(x) + ops.sqrt(x - ops.stop_gradient(x)),
    "mask": lambda x: ops.softmax(x + ops.cast(ops.less(x, 0.0), x.dtype) * -1e9),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_the_layer_before_operations_that_leave_the_range_is_float32(name):
    model = model_of(HARMFUL[name])
    rows = rows_of(model)
    assert rows["early"].compute_dtype == "float16"
    assert rows["behind"].compute_dtype == ("float32" if name == "exp" else "float16")
    if name != "mask":  # its mask is float32 in the graph, and what comes behind it
        assert rows["before"].compute_dtype == "float32"
        assert rows["before"].reason.startswith("feeds ")
    x = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
    exact = ops.convert_to_numpy(model(x))
    plan(model, "mixed_float16").apply()
    np.testing.assert_allclose(ops.convert_to_numpy(model(x)), exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + ops.relu(x),
        ops.softmax,
        lambda x: ops.reshape(ops.transpose(ops.reshape(x, (-1, 2, 4)), (0, 2, 1)), (-1, 8)),
        lambda x: root_mean_square(ops.cast(x, "float32")),
    ],
    ids="residual softmax moves cast".split(),
)
def test_operations_that_fit_leave_the_plan_as_it_is(function):
    rows = rows_of(model_of(function))
    assert {row.compute_dtype for path, row in rows.items() if path not in ("out", "/")} == {
        "float16"
    }


@pytest.mark.parametrize(
    "function",
    [lambda p: ops.log(p + 1e-3), ops.log_softmax, lambda p: ops.exp(4 * p)],
    ids="floor log_softmax exp".split(),
)
def test_code_that_fits_for_shares_stays(function):
    shares = layers.Dense(8, "softmax", name="shares")
    rows = rows_of(model_of(Own(function, name="own"), shares))
    wide = {path for path, row in rows.items() if row.compute_dtype == "float32"}
    assert wide == {"out"}


class Noise(layers.Layer):
    """Adds random numbers, which FP16 draws differently, or NumPy in every run."""

    def __init__(self, is_seeded, **options):
        super().__init__(**options)
        self.is_seeded, self.seeds = is_seeded, keras.random.SeedGenerator(1)

    def call(self, x):
        if self.is_seeded:
            return x + keras.random.uniform(ops.shape(x), seed=self.seeds, dtype=x.dtype)
        return x + ops.cast(np.random.default_rng().normal(size=8), x.dtype)


@pytest.mark.parametrize("is_seeded", [True, False])
def test_random_numbers_are_no_loss(is_seeded):
    rows = rows_of(model_of(Noise(is_seeded, name="own")))
    assert rows["own"].reason == "base policy"


def test_a_layer_that_moves_values_is_enough():
    rows = rows_of(model_of(root_mean_square, layers.Dropout(0.1, name="drop")))
    assert rows["drop"].compute_dtype == "float32"
    assert rows["before"].compute_dtype == rows["early"].compute_dtype == "float16"


def test_of_a_model_before_it_the_last_layer_is_float32():
    parts = layers.Dense(8, name="a"), layers.Dense(8, name="b")
    inner = stack(*parts, inputs=(8,), name="inner")
    rows = rows_of(model_of(root_mean_square, inner))
    assert (rows["inner/a"].compute_dtype, rows["inner/b"].compute_dtype) == ("float16", "float32")


def test_a_residual_stream_needs_one_float32_operand():
    def blocks(x):
        x = x + layers.Dense(8, name="first")(x)
        return root_mean_square(x + layers.Dense(8, name="second")(x))

    rows = rows_of(model_of(blocks))
    wide = {path for path, row in rows.items() if row.compute_dtype == "float32"}
    assert wide & {"before", "first", "second"} == {"second"}


class Chosen(layers.Layer):
    """A mask meets products of layers and a lookup, which operators join."""

    def __init__(self, **options):
        super().__init__(**options)
        self.query, self.key = layers.Dense(8, name="query"), layers.Dense(8, name="key")
        self.bias = layers.Embedding(8, 8)

    def call(self, x):
        scores = self.query(x) * self.key(x) + self.bias(ops.arange(8))
        mask = 1.0 - ops.cast(ops.tril(ops.ones((8, 8))), scores.dtype)
        return ops.softmax(scores + mask * -1e9)


def test_parts_whose_dtypes_do_not_meet_alone_hide_no_harm():
    inputs = keras.Input((8, 8))
    model = keras.Model(inputs, layers.Dense(8)(Chosen(name="own")(inputs)))
    plan(model, "mixed_float16").apply()
    assert np.isfinite(model.predict(np.ones((2, 8, 8)), verbose=0)).all()


class Repeated(layers.Layer):
    """Hands the results of a layer through a loop, whose state has one dtype."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function, self.dense = function, layers.Dense(8, name="dense")

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        return ops.fori_loop(0, 2, lambda _, state: self.function(self.dense(state)), x)


def test_code_in_loops_is_measured_and_runs_as_planned():
    unit = HARMFUL["root_mean_square"]
    inputs = keras.Input((8,))
    model = keras.Model(inputs, layers.Dense(8)(Repeated(unit, name="loop")(inputs)))
    made = plan(model, "mixed_float16")
    assert made.rows[2].reason.startswith("feeds loop, which loses ")
    made.apply()
    assert np.isfinite(model.predict(np.ones((2, 8)), verbose=0)).all()


def test_an_exported_model_as_a_layer_keeps_its_dtype(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("Keras has the layer on TensorFlow only")
    keras.Sequential([keras.Input((8,)), layers.Dense(8)]).export(tmp_path / "m", verbose=False)
    exported = layers.TFSMLayer(str(tmp_path / "m"), call_endpoint="serve", name="exported")
    inputs = keras.Input((8,))
    model = keras.Model(inputs, layers.Dense(8)(exported(layers.Dense(8)(inputs))))
    rows = {row.path: row for row in plan(model, "mixed_float16").rows}
    assert rows["exported"].policy == "float32"
