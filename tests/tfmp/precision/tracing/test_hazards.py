"""Constants, epsilons and sums that leave FP16's range inside a layer keep it in float32."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from tfmp import plan, revert


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    keras.utils.set_random_seed(7)
    # Gradients are measured in test_large_gradients.py.
    monkeypatch.setattr("tfmp.precision.tracing.traced_facts.steep_places", lambda *_: {})


class Own(layers.Layer):
    """A layer with the code of a function."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, x):
        return self.function(x)


def steps(x, dtype="int32"):
    """The numbers of the steps in a sequence, times 1000 for timestamps."""
    return ops.cast(ops.arange(ops.shape(x)[1], dtype="int32") * 1000, dtype)


def from_data(x):
    """Whole numbers that nobody knows beforehand."""
    return ops.cast(ops.cast(x, "float32"), "int32")


def in_float32(function):
    return lambda x: ops.cast(function(ops.cast(x, "float32")), x.dtype)


def in_float32_after(function):
    return lambda x: ops.cast(ops.tanh(ops.cast(function(x), "float32") + 1), x.dtype)


def model_of(functions, shape=(512, 8)) -> keras.Model:
    """A branch for each function: a layer before it, a layer with its code, and an output."""
    inputs, outputs = keras.Input(shape), []
    for name, function in functions.items():
        x = layers.Dense(8, kernel_initializer="identity", name=f"before_{name}")(inputs)
        x = Own(function, name=name)(x)
        outputs.append(layers.Dense(8, kernel_initializer="identity")(x))
    return keras.Model(inputs, outputs)


def rows_of(functions, policy="mixed_float16", **options) -> dict:
    return {row.path: row for row in plan(model_of(functions, **options), policy).rows}


def masked(x):
    return x + ops.cast(ops.triu(ops.ones((8, 8)))[0], x.dtype) * -1e9


SQUARES = "sums squares that are infinite in float16 from 256 on"
CUBES = "takes powers that are infinite in float16 from 40.3 on"
FOURTH_POWERS = "takes powers that are infinite in float16 from 16 on"
INVERSES = "takes powers whose gradients are infinite in float16 up to 0.0039"
INVERSE_SQUARES = "takes powers whose gradients are infinite in float16 up to 0.025"
SUMS = "sums 512 values in float16"
INTEGERS = "computes with whole numbers, exact in float16 up to 2048"
FREQUENCIES = "takes sines of positions times frequencies, which float16 rounds"
EXPONENTIALS = "takes exponentials, infinite in float16 from 11.1 on"
HARMFUL = {
    "computes with the constant 1e+09, infinite in float16": {
        "mask": masked,
    },
    "computes with the constant 1e-09, 0 in float16": {
        "epsilon": lambda x: x / (ops.abs(x) + 1e-09),
    },
    SUMS: {
        "sum": lambda x: ops.sum(x, axis=1),
        "gram": lambda x: ops.einsum("bti,btj->bij", x, x),
    },
    SQUARES: {
        "root_mean_square": lambda x: (
            x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-06)
        ),
        "norm": lambda x: x / ops.norm(x, axis=-1, keepdims=True),
        "var": lambda x: x * ops.rsqrt(ops.var(x, -1, keepdims=True) + 0.001),
        "einsum_norm": lambda x: x / ops.sqrt(ops.einsum("bti,bti->bt", x, x)[..., None]),
    },
    EXPONENTIALS: {
        "positive": lambda x: ops.exp(ops.where(x > 0, x, 0.0)),
        "centered": lambda x: ops.exp(x - ops.mean(x, axis=-1, keepdims=True)),
        "cosh": lambda x: ops.cosh(x),
        "power_of_2": lambda x: 2.0**x,
        "wide_tanh": lambda x: ops.exp(ops.tanh(x) * 20),
        "branch": lambda x: ops.cond(ops.max(x) > 0, lambda: ops.exp(x), lambda: x),
    },
    FOURTH_POWERS: {
        "fourth": lambda x: x**4,
        "loop": lambda x: ops.fori_loop(0, 3, lambda _, y: y / 2 + x**4, x),
        "slices": lambda x: (x[..., :4] / (1 + ops.abs(x[..., 4:]))) ** 4,
    },
    CUBES: {
        "product": lambda x: x * x * x,
        "clipped_cube": lambda x: ops.clip(x, -100, 100) ** 3,
        "monomials": lambda x: x[..., :1] ** ops.cast(ops.arange(4), x.dtype),
        "horner": lambda x: ((0.3 * x + 0.2) * x + 0.1) * x,
        "chain": lambda x: ops.matmul(ops.matmul(x, ops.swapaxes(x, 1, 2)), x),
        "tanh_and_cube": lambda x: ops.tanh(x) + x**3,
        "gelu_and_cube": lambda x: ops.gelu(x) + ops.sum(x**3, axis=-1, keepdims=True),
    },
    INVERSE_SQUARES: {
        "inverse_square": lambda x: x ** (-2),
    },
    "multiplies 8 values in float16": {
        "prod": lambda x: x * ops.prod(x, axis=-1, keepdims=True),
    },
    INVERSES: {
        "harmonic": lambda x: 1 / ops.mean(1 / (ops.abs(x) + 0.0001), -1, keepdims=True),
    },
    "takes powers with exponents that are no constants": {
        "variable_power": lambda x: ops.abs(x) ** ops.max(x),
    },
    "divides by 1e-05, which is infinite in float16 from 0.66 on": {
        "small_divisor": lambda x: x / 1e-05,
    },
    INTEGERS: {
        "timestamps": lambda x: x + steps(x, x.dtype)[:, None],
        "difference": lambda x: x - ops.cast(from_data(x), x.dtype),
        "narrowed": in_float32_after(lambda x: ops.cast(from_data(x), x.dtype)),
    },
    "sums 8 values in float16": {
        "large_sum": lambda x: ops.sum(ops.exp(10 * ops.tanh(x)), -1, keepdims=True),
    },
    FREQUENCIES: {
        "frequencies": lambda x: ops.sin(x[..., :1] * 2.0 ** ops.cast(ops.arange(8), x.dtype)),
    },
    "takes sines of angles up to 256, off by 0.12 in float16": {
        "angles": lambda x: x + ops.sin(ops.cast(ops.arange(512), x.dtype)[:, None] * 0.5),
    },
}


@pytest.mark.parametrize("reason", HARMFUL)
def test_what_fp16_cannot_hold_is_found(reason):
    functions = HARMFUL[reason]
    rows = rows_of(functions)
    assert {name: rows[name].reason for name in functions} == dict.fromkeys(functions, reason)
    assert all(rows[f"before_{name}"].policy == "mixed_float16" for name in functions)


def test_bfloat16_holds_what_fp16_cannot():
    rows = rows_of({"mask": masked, "fourth": lambda x: x**4}, "mixed_bfloat16")
    assert rows["mask"].policy == rows["fourth"].policy == "mixed_bfloat16"


def own_softmax(x):
    exponentials = ops.exp(x - ops.max(x, axis=-1, keepdims=True))
    return exponentials / ops.sum(exponentials, axis=-1, keepdims=True)


BENIGN = {
    **{name: keras.activations.get(name) for name in "softmax softplus selu mish".split()},
    "logsumexp": lambda x: ops.logsumexp(x, axis=-1),
    "logaddexp": lambda x: ops.logaddexp(x, 2 * x),
    "own_softmax": own_softmax,
    "gauss": lambda x: ops.exp(-ops.square(x)),
    "clip": lambda x: ops.exp(ops.clip(x, -5.0, 5.0)),
    "mask": in_float32(masked),
    "large_constant": lambda x: ops.where(x > 0, x, -6e4),
    "large_epsilon": lambda x: x / (ops.abs(x) + 1e-3),
    "short_sum": lambda x: ops.sum(x, axis=2),  # 8 values
    "mean": lambda x: ops.mean(x, axis=1),  # Keras sums in float32
    "maximum": lambda x: ops.max(x, axis=1),  # begins with an infinity
    "gelu": lambda x: 0.5 * x * (1 + ops.tanh(0.8 * (x + 0.045 * x**3))),
    "tanh4": lambda x: ops.tanh(x) ** 4,
    "focal": lambda x: (1 - ops.sigmoid(x)) ** 4,
    "softmax4": lambda x: ops.softmax(x) ** 4,
    "cauchy": lambda x: (1 + x * x) ** -2,
    "share": lambda x: ops.sigmoid(x) / ops.sum(ops.sigmoid(x), axis=-1, keepdims=True),
    "count": lambda x: x * (1 / ops.cast(ops.shape(x)[0], x.dtype)),
    "log_softmax": lambda x: ops.exp(ops.log_softmax(x)),
    "tanh5": lambda x: ops.exp(5 * ops.tanh(x)),
    "half": lambda x: 0.5 ** ops.abs(x),
    "decay": lambda x: x * ops.exp(-0.1 * ops.cast(ops.arange(8), x.dtype)),
    "tanh_quotient": lambda x: ops.tanh(x) / 1e-4,
    "fourth": in_float32(lambda x: x**4),
    "var_of_tanh": lambda x: x * ops.rsqrt(ops.var(ops.tanh(x), -1, keepdims=True) + 1e-3),
    "root_of_1": lambda x: (x / ops.sqrt(1 + ops.square(x))) ** 4,
    "saturating": lambda x: (ops.abs(x) / (0.5 + 2 * ops.abs(x))) ** 4,
    "sum_of_gates": lambda x: x / ops.sum(ops.sigmoid(x), axis=1, keepdims=True),
    "by_maximum": lambda x: (x / (ops.max(ops.abs(x), axis=-1, keepdims=True) + 1e-3)) ** 4,
    "attention": lambda x: ops.matmul(ops.softmax(ops.matmul(x, ops.swapaxes(2 * x, 1, 2))), x),
    "dispatch": lambda x: ops.einsum(
        "bti,btj->bij", ops.one_hot(ops.argmax(x, -1), 4, dtype=x.dtype), x
    ),
    "parts": lambda x: x + ops.sum(ops.multiply(*ops.split(x, 2, -1)), -1, keepdims=True),
    "one_minus": lambda x: x * (1 - ops.cast(from_data(x), x.dtype)),
    "lengths": lambda x: x / ops.maximum(ops.cast(from_data(x), x.dtype), 1),
    "short_positions": lambda x: x + ops.cast(ops.arange(512), x.dtype)[:, None] / 512,
    "bytes": lambda x: x + ops.cast(ops.cast(x, "uint8"), x.dtype),
    "siren": lambda x: ops.sin(30 * x),
    "sum_of_gelus": lambda x: x + ops.sum(ops.gelu(x), axis=-1, keepdims=True),
    "narrow_encoding": lambda x: ops.sin(
        ops.sigmoid(x[..., :1]) * 2.0 ** ops.cast(ops.arange(5), x.dtype)
    ),
    "wide_positions": in_float32(lambda x: ops.sin(x + steps(x, "float32")[:, None])),
}


def test_arithmetic_that_fits_or_is_float32_already_is_let_through():
    rows = rows_of(BENIGN)
    assert {name: rows[name].reason for name in BENIGN} == dict.fromkeys(BENIGN, "base policy")


class Weighted(layers.Layer):
    """Its weight begins as a number that FP16 does not have, and as 0."""

    def build(self, shape):
        small = keras.initializers.Constant(1e-9)
        self.scale = self.add_weight(shape=(shape[-1],), initializer=small, name="scale")
        self.power = self.add_weight(shape=(), initializer="zeros", name="power")

    def call(self, x):
        scale = ops.cast(self.scale, x.dtype)
        x = x * scale * (scale + ops.cast(self.power, x.dtype))
        return ops.exp(x * ops.cast(self.power, x.dtype)) if self.name == "exponential" else x


@pytest.mark.parametrize(("name", "kept"), [("product", False), ("exponential", True)])
def test_the_first_values_of_weights_are_no_constants(name, kept):
    model = keras.Sequential([layers.Input((8,)), Weighted(name=name), layers.Dense(8)])
    row = plan(model, "mixed_float16").rows[1]
    assert (row.policy == "float32") is kept
    assert row.reason == (EXPONENTIALS if kept else "base policy")


def test_an_axis_of_unknown_length_may_be_long():
    rows = rows_of({"own": lambda x: ops.sum(x, axis=1)}, shape=(None, 8))
    assert rows["own"].reason == "sums any number of values in float16"


class Attention(layers.Layer):
    """Its mask meets the result of a layer inside it."""

    def __init__(self, **options):
        super().__init__(**options)
        self.query = layers.Dense(8, name="query")

    def build(self, shape):
        self.query.build(shape)

    def call(self, x):
        return masked(self.query(x))


def test_the_layers_inside_go_with_the_layer_that_computes_with_them():
    inputs = keras.Input((8,))
    x = layers.Dense(8)(Attention(name="attention")(inputs))
    rows = {row.path: row for row in plan(keras.Model(inputs, x), "mixed_float16").rows}
    assert rows["attention"].policy == rows["attention/query"].policy == "float32"


@pytest.mark.parametrize(
    ("function", "kept"),
    [(lambda x: x**4, True), (lambda x: 1 / (1 + x**4), False)],
    ids=["power", "inside"],
)
def test_the_layer_that_reads_a_power_goes_with_it(function, kept):
    inputs = keras.Input((8,))
    x = Own(function, name="own")(layers.Dense(8)(inputs))
    x = layers.Dense(8, name="next")(layers.Reshape((8,), name="move")(x))
    model = keras.Model(inputs, layers.Dense(8)(layers.Dense(8, name="later")(x)))
    rows = {row.path: row for row in plan(model, "mixed_float16").rows}
    assert (rows["next"].policy == "float32") is kept
    assert rows["later"].policy == "mixed_float16"
    if kept:
        reason = "reads the result of own, which may be infinite in float16"
        assert rows["move"].reason == rows["next"].reason.replace("of move", "of own") == reason


@pytest.mark.parametrize(
    ("function", "reads"),
    [(ops.exp, True), (lambda x: ops.exp(x) / ops.sum(ops.exp(x), -1, keepdims=True), False)],
    ids=["exponential", "shares"],
)
def test_the_layer_that_reads_an_exponential_goes_with_it(function, reads):
    inputs = keras.Input((8,))
    x = Own(function, name="own")(layers.Dense(8)(inputs))
    x = layers.Dense(8, name="next")(layers.Multiply(name="move")([x, x]))
    rows = {row.path: row for row in plan(keras.Model(inputs, x), "mixed_float16").rows}
    reason = "reads exponentials of own, which may be infinite in float16"
    assert [rows[name].reason == reason for name in ("move", "next")] == [reads, reads]


def test_a_model_that_takes_exponentials_between_its_layers_does_it_in_float32():
    class Odds(keras.Model):
        def __init__(self):
            super().__init__()
            for name in ("stem", "scores", "values", "read", "later", "out"):
                setattr(self, name, layers.Dense(8, name=name))

        def call(self, x):
            x = self.stem(x)
            return self.out(self.later(self.read(self.values(x) * ops.exp(self.scores(x)))))

    model = Odds()
    model(np.ones((2, 8)))
    made = plan(model, "mixed_float16")
    rows = {row.path: row for row in made.rows}
    assert rows["scores"].reason == f"feeds the model, which {EXPONENTIALS}"
    assert rows["read"].reason.startswith("reads exponentials of the model")
    assert rows["stem"].policy == rows["later"].policy == "mixed_float16"
    assert not made.notes
    made.apply()
    assert np.isfinite(model(np.ones((2, 8)))).all()  # all dtypes meet


def test_a_models_own_code_is_noted():
    class Masking(keras.Model):
        def __init__(self):
            super().__init__()
            self.body, self.late, self.out = (layers.Dense(8, name=n) for n in ("a", "b", "c"))

        def call(self, x):
            return self.out(self.late(masked(self.body(x))))

    model = Masking()
    model(np.ones((2, 8)))
    (note,) = plan(model, "mixed_float16").notes
    assert note.startswith("the model computes with the constant 1e+09, infinite in float16: cast")


# --- built-in layers, which are not traced: rules have to know them ---


@pytest.mark.parametrize(("steps", "kept"), [(512, True), (None, True), (16, False)])
def test_a_masked_mean_over_many_steps(steps, kept):
    inputs = keras.Input((steps, 8))
    x = layers.Dense(8)(layers.Masking()(inputs))
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    model = keras.Model(inputs, layers.Dense(2)(x))
    rows = {row.path: row for row in plan(model, "mixed_float16").rows}
    assert (rows["pool"].policy == "float32") is kept
    if steps == 512:
        assert rows["pool"].reason == "sums 512 steps where it gets a mask"
        plan(model, "mixed_float16").apply()
        assert np.isfinite(ops.convert_to_numpy(model(np.full((2, 512, 8), 200.0)))).all()
        revert(model)


@pytest.mark.slow
def test_reductions_of_keras_ops_over_long_axes():
    reductions = (ops.sum, ops.std, ops.logsumexp, ops.norm, ops.cumsum, ops.softmax)
    functions = {op.__name__: lambda x, op=op: op(x, axis=1) for op in reductions}
    x = np.random.default_rng(0).uniform(100, 300, (2, 2048, 8)).astype("float32")
    model = model_of(functions, shape=(2048, 8))
    exact = model(x)
    plan(model, "mixed_float16").apply()
    for name, one, other in zip(functions, model(x), exact, strict=True):
        # FP16's spacing at the inputs is 0.25.
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.25, err_msg=name)


LONG = [
    (layers.GlobalAveragePooling1D, (2048, 8), True),
    (layers.GlobalAveragePooling2D, (64, 64, 8), False),
    (layers.AveragePooling1D, (2048, 8), False),
    (layers.LayerNormalization, (2048,), False),
    (layers.GroupNormalization, (64, 64, 32), False),
    (layers.BatchNormalization, (2048, 8), True),
    (layers.UnitNormalization, (2048,), False),
    (layers.Softmax, (2048,), False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shape", "with_mask"), LONG)
def test_built_in_layers_over_long_axes(kind, shape, with_mask):
    options = {"pool_size": 32} if kind is layers.AveragePooling1D else {}
    inputs = x = keras.Input(shape)
    x = layers.Activation("relu")(layers.Masking()(x) if with_mask else x)
    x = kind(**options)(x)
    model = keras.Model(inputs, layers.Activation("linear")(x))
    values = np.random.default_rng(0).uniform(100, 300, (2, *shape)).astype("float32")
    exact = model.predict(values, verbose=0)
    plan(model, "mixed_float16").apply()
    np.testing.assert_allclose(model.predict(values, verbose=0), exact, rtol=0.02, atol=0.02)
