"""Constants, epsilons and sums that leave FP16's range inside a layer keep it in float32."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from tfmp import plan, revert


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(7)


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


def model_of(function, shape=(512, 8)) -> keras.Model:
    inputs = keras.Input(shape)
    x = layers.Dense(8, kernel_initializer="identity", name="before")(inputs)
    x = Own(function, name="own")(x)
    return keras.Model(inputs, layers.Dense(8, kernel_initializer="identity", name="out")(x))


def reason_of(function, policy="mixed_float16", is_steep=False, **options) -> str | None:
    """Why the layer with this function stays in float32; None if it does not.

    The layer before it stays there, too, if the function is so steep that it gets large gradients.
    """
    rows = {row.path: row for row in plan(model_of(function, **options), policy).rows}
    assert rows["before"].policy == ("float32" if is_steep else policy)
    return rows["own"].reason if rows["own"].policy == "float32" else None


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
# Their gradients pass 65504 at 0, beside it, or at 1.
STEEP = "epsilon inverse_square over_square wide_tanh small_divisor".split()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (masked, "computes with the constant 1e+09, infinite in float16"),
        (
            lambda x: ops.where(x > 0, x, -1e10),
            "computes with the constant 1e+10, infinite in float16",
        ),
        (
            lambda x: x / (ops.abs(x) + 1e-9),
            "computes with the constant 1e-09, 0 in float16",
        ),
        (lambda x: ops.sum(x, axis=1), "sums 512 values in float16"),
        (lambda x: x / ops.norm(x, axis=1, keepdims=True), "sums 512 values in float16"),
        (lambda x: ops.cumsum(x, axis=1), "sums 512 values in float16"),
        (lambda x: x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-6), SQUARES),
        (lambda x: x / ops.sqrt(ops.sum(x * x, axis=-1, keepdims=True)), SQUARES),
        (lambda x: x / ops.sqrt(ops.mean(x**2, axis=-1, keepdims=True)), SQUARES),
        (lambda x: x / ops.norm(x, axis=-1, keepdims=True), SQUARES),
        (lambda x: x * ops.rsqrt(ops.var(x, -1, keepdims=True) + 1e-3), SQUARES),
        (lambda x: x * ops.rsqrt(ops.moments(x, (-1,), keepdims=True)[1] + 1e-3), SQUARES),
        (lambda x: ops.log(1 + ops.exp(3 * x)), EXPONENTIALS),
        (lambda x: ops.exp(0.5 * x), EXPONENTIALS),
        (lambda x: ops.exp(-x), EXPONENTIALS),
        (lambda x: ops.expm1(x), EXPONENTIALS),
        (lambda x: ops.exp(ops.where(x > 0, x, 0.0)), EXPONENTIALS),
        (lambda x: ops.exp(x - ops.mean(x, axis=-1, keepdims=True)), EXPONENTIALS),
        (lambda x: x**4, FOURTH_POWERS),
        (lambda x: ops.square(ops.square(x)), FOURTH_POWERS),
        (lambda x: ops.power(x, 3.0), CUBES),
        (lambda x: x * x * x, CUBES),
        (lambda x: ops.clip(x, -100, 100) ** 3, CUBES),
        (lambda x: x**-2, INVERSE_SQUARES),
        (lambda x: x[..., :1] ** ops.cast(ops.arange(4), x.dtype), CUBES),
        (lambda x: x * ops.prod(x, axis=-1, keepdims=True), "multiplies 8 values in float16"),
        (lambda x: ops.cumprod(x, axis=-1), "multiplies 8 values in float16"),
        (lambda x: 1 / ops.square(x), INVERSE_SQUARES),
        (lambda x: 1 / ops.mean(1 / (ops.abs(x) + 1e-4), -1, keepdims=True), INVERSES),
        (lambda x: ((0.3 * x + 0.2) * x + 0.1) * x, CUBES),
        (lambda x: x * (x + 1) * (x + 2), CUBES),
        (lambda x: ops.cosh(x), EXPONENTIALS),
        (lambda x: 2.0**x, EXPONENTIALS),
        (lambda x: ops.exp(ops.tanh(x) * 20), EXPONENTIALS),
        (lambda x: ops.abs(x) ** ops.max(x), "takes powers with exponents that are no constants"),
        (lambda x: ops.fori_loop(0, 3, lambda _, y: y / 2 + x**4, x), FOURTH_POWERS),
        (lambda x: ops.cond(ops.max(x) > 0, lambda: ops.exp(x), lambda: x), EXPONENTIALS),
        (lambda x: x / 1e-5, "divides by 1e-05, which is infinite in float16 from 0.66 on"),
        (lambda x: ops.einsum("bti,bti,bti->bti", x, x, x), CUBES),
        (lambda x: ops.einsum("bti,btj,btk->btijk", x, x, x)[..., 0, 0], CUBES),
        (lambda x: ops.matmul(ops.matmul(x, ops.swapaxes(x, 1, 2)), x), CUBES),
        (lambda x: ops.einsum("bti,bti->bt", x, x)[..., None] * x[..., :1], CUBES),
        (lambda x: x / ops.sqrt(ops.einsum("bti,bti->bt", x, x)[..., None]), SQUARES),
        (lambda x: ops.einsum("bti,btj->bij", x, x), SUMS),
        (lambda x: ops.einsum("bti,bt->bi", x, ops.cast(x[..., 0] > 0, x.dtype)), SUMS),
        (lambda x: ops.einsum("bti->bi", x), SUMS),
        (lambda x: (x[..., :4] / (1 + ops.abs(x[..., 4:]))) ** 4, FOURTH_POWERS),
        (lambda x: x + steps(x, x.dtype)[:, None], INTEGERS),
        (lambda x: x - ops.cast(from_data(x), x.dtype), INTEGERS),
        (lambda x: ops.concatenate([x, ops.cast(from_data(x), x.dtype)], -1), INTEGERS),
        (lambda x: ops.cast(from_data(x), x.dtype) * 0.01, INTEGERS),
        (in_float32_after(lambda x: ops.cast(from_data(x), x.dtype)), INTEGERS),
        (
            lambda x: ops.sum(ops.exp(10 * ops.tanh(x)), -1, keepdims=True),
            "sums 8 values in float16",
        ),
        (lambda x: ops.sin(x[..., :1] * 2.0 ** ops.cast(ops.arange(8), x.dtype)), FREQUENCIES),
        (
            lambda x: x + ops.sin(ops.cast(ops.arange(512), x.dtype)[:, None] * 0.5),
            "takes sines of angles up to 256, off by 0.12 in float16",
        ),
        (lambda x: ops.tanh(x) + x**3, CUBES),
        (lambda x: ops.gelu(x) + ops.sum(x**3, axis=-1, keepdims=True), CUBES),
    ],
    ids=(
        "mask where epsilon sum norm cumsum root_mean_square product power short_norm "
        "var moments softplus deviation negative minus_1 positive centered fourth "
        "square_of_square pow3 xxx "
        "clipped_cube inverse_square monomials prod cumprod over_square harmonic horner factors "
        "cosh power_of_2 wide_tanh variable_power loop branch small_divisor einsum_cube outer "
        "chain dot_times einsum_norm gram masked_sum einsum_sum slices timestamps "
        "difference joined scaled narrowed large_sum frequencies angles tanh_and_cube gelu_and_cube"
    ).split(),
)
def test_what_fp16_cannot_hold_is_found(function, reason, request):
    is_steep = request.node.callspec.id in STEEP
    assert reason_of(function, is_steep=is_steep) == reason
    assert reason_of(function, "mixed_bfloat16") is None


def own_softmax(x):
    exponentials = ops.exp(x - ops.max(x, axis=-1, keepdims=True))
    return exponentials / ops.sum(exponentials, axis=-1, keepdims=True)


ACTIVATIONS = (
    "softmax log_softmax softplus silu elu selu celu gelu log_sigmoid sigmoid tanh hard_silu mish "
    "tanh_shrink exponential_linear"
).split()
KNOWN_ACTIVATIONS = [name for name in ACTIVATIONS if hasattr(keras.activations, name)]


@pytest.mark.parametrize("name", [*KNOWN_ACTIVATIONS, "logsumexp", "logaddexp"])
def test_the_exponentials_of_keras_itself_are_let_through(name):
    functions = {
        "logsumexp": lambda x: ops.logsumexp(x, axis=-1),
        "logaddexp": lambda x: ops.logaddexp(x, 2 * x),
    }
    assert reason_of(functions.get(name) or getattr(keras.activations, name)) is None


@pytest.mark.parametrize(
    "function",
    [
        own_softmax,
        lambda x: ops.exp(-ops.square(x)),
        lambda x: ops.exp(-0.5 * (x * x)),
        lambda x: ops.exp(-ops.abs(x) / 2.0),
        lambda x: ops.exp(ops.clip(x, -5.0, 5.0)),
        lambda x: ops.exp(ops.minimum(x, 4.0)),
        in_float32(ops.exp),
        in_float32(masked),
        in_float32(lambda x: x / (ops.sum(x, axis=1, keepdims=True) + 1e-9)),
        lambda x: ops.where(x > 0, x, -6e4),
        lambda x: x / (ops.abs(x) + 1e-3),
        lambda x: ops.sum(x, axis=2),  # 8 values
        lambda x: ops.mean(x, axis=1),  # Keras sums in float32
        in_float32(lambda x: x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-6)),
        lambda x: ops.square(ops.relu(x)),  # an activation
        lambda x: ops.max(x, axis=1),  # begins with an infinity, in every precision
        lambda x: x * 0.0,
        lambda x: 0.5 * x * (1 + ops.tanh(0.8 * (x + 0.045 * x**3))),
        lambda x: ops.tanh(x) ** 4,
        lambda x: ops.clip(x, -10, 10) ** 4,
        lambda x: ops.abs(x) ** 0.5,
        lambda x: (1 - ops.sigmoid(x)) ** 4,
        lambda x: ops.relu6(x) ** 3,
        lambda x: ops.softmax(x) ** 4,
        lambda x: (1 + x * x) ** -2,
        lambda x: 1 / (0.01 + ops.abs(x)),
        lambda x: ops.sigmoid(x) / ops.sum(ops.sigmoid(x), axis=-1, keepdims=True),
        lambda x: x * (1 / ops.cast(ops.shape(x)[0], x.dtype)),
        lambda x: x * ops.tanh(x) * ops.tanh(x) * ops.tanh(x),
        lambda x: ops.exp(ops.log_softmax(x)),
        lambda x: ops.exp(-ops.softplus(x)),
        lambda x: ops.exp(5 * ops.tanh(x)),
        lambda x: 0.5 ** ops.abs(x),
        lambda x: x * ops.exp(-0.1 * ops.cast(ops.arange(8), x.dtype)),
        lambda x: ops.fori_loop(0, 3, lambda _, y: ops.tanh(x + y) ** 4, x),
        lambda x: ops.tanh(x) / 1e-4,
        in_float32(lambda x: x**4),
        lambda x: x * ops.rsqrt(ops.var(ops.tanh(x), -1, keepdims=True) + 1e-3),
        in_float32(lambda x: x * ops.rsqrt(ops.var(x, -1, keepdims=True) + 1e-3)),
        lambda x: (x / (1 + ops.abs(x))) ** 4,
        lambda x: ops.softsign(x) ** 4,
        lambda x: (x / ops.sqrt(1 + ops.square(x))) ** 4,
        lambda x: (x * ops.rsqrt(1 + x * x)) ** 4,
        lambda x: (ops.abs(x) / (0.5 + 2 * ops.abs(x))) ** 4,
        lambda x: x / ops.sum(ops.sigmoid(x), axis=1, keepdims=True),
        lambda x: (ops.relu(x) / (0.5 + ops.relu(x))) ** 4,
        lambda x: (x / (ops.max(ops.abs(x), axis=-1, keepdims=True) + 1e-3)) ** 4,
        lambda x: ops.einsum("bti,bti,bti->bti", *[ops.tanh(x)] * 3),
        lambda x: ops.matmul(ops.softmax(ops.matmul(x, ops.swapaxes(2 * x, 1, 2))), x),
        lambda x: ops.einsum("bti,btj->bij", ops.one_hot(ops.argmax(x, -1), 4, dtype=x.dtype), x),
        lambda x: x + ops.sum(ops.multiply(*ops.split(x, 2, -1)), -1, keepdims=True),
        lambda x: ops.matmul(x[..., :4], ops.swapaxes(x[..., 4:], 1, 2)),
        lambda x: x * ops.cast(from_data(x) > 0, x.dtype),
        lambda x: x * (1 - ops.cast(from_data(x), x.dtype)),
        lambda x: x / ops.maximum(ops.cast(from_data(x), x.dtype), 1),
        lambda x: x + ops.cast(ops.arange(512), x.dtype)[:, None] / 512,
        lambda x: x + ops.cast(ops.cast(x, "uint8"), x.dtype),
        lambda x: ops.sin(30 * x),
        lambda x: ops.sin(ops.sigmoid(x[..., :1]) * 2.0 ** ops.cast(ops.arange(5), x.dtype)),
        in_float32(lambda x: ops.sin(x + steps(x, "float32")[:, None])),
        lambda x: x + ops.sum(ops.gelu(x), axis=-1, keepdims=True),
    ],
    ids=(
        "softmax gauss product decay clip minimum exp mask sum -6e4 1e-3 short_sum mean "
        "root_mean_square relu2 max zero gelu tanh4 clip4 root focal relu6 softmax4 cauchy "
        "inverse share count gates log_softmax softplus tanh5 half steps loop tanh_quotient "
        "fourth var_of_tanh wide_var softsign softsign4 root_of_1 rsqrt_of_1 saturating "
        "sum_of_gates "
        "saturating_relu by_maximum tanh_cube attention dispatch parts slices mask one_minus "
        "lengths short_positions bytes siren narrow_encoding wide_positions sum_of_gelus"
    ).split(),
)
def test_arithmetic_that_fits_or_is_float32_already_is_let_through(function):
    assert reason_of(function) is None


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
    reason = reason_of(lambda x: ops.sum(x, axis=1), shape=(None, 8))
    assert reason == "sums any number of values in float16"


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
    [(lambda x: x**4, True), (lambda x: 1 / (1 + x**4), False), (lambda x: x**2, False)],
    ids=["power", "inside", "square"],
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


REDUCTIONS = (
    "sum mean var std logsumexp norm cumsum softmax log_softmax average nansum nanmean".split()
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REDUCTIONS if hasattr(ops, name)])
def test_reductions_of_keras_ops_over_long_axes(name):
    def function(x):
        return getattr(ops, name)(x, axis=1)

    x = np.random.default_rng(0).uniform(100, 300, (2, 2048, 8)).astype("float32")
    model = model_of(function, shape=(2048, 8))
    exact = ops.convert_to_numpy(model(x))
    plan(model, "mixed_float16").apply()
    # FP16's spacing at the inputs is 0.25.
    np.testing.assert_allclose(ops.convert_to_numpy(model(x)), exact, rtol=0.02, atol=0.25)


LONG = {
    layers.GlobalAveragePooling1D: (2048, 8),
    layers.GlobalAveragePooling2D: (64, 64, 8),
    layers.AveragePooling1D: (2048, 8),
    layers.AveragePooling2D: (64, 64, 8),
    layers.LayerNormalization: (2048,),
    layers.RMSNormalization: (2048,),
    layers.GroupNormalization: (64, 64, 32),
    layers.BatchNormalization: (2048, 8),
    layers.UnitNormalization: (2048,),
    layers.Softmax: (2048,),
}


@pytest.mark.slow
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("kind", LONG, ids=lambda kind: kind.__name__)
def test_built_in_layers_over_long_axes(kind, with_mask):
    shape = LONG[kind]
    if with_mask and (len(shape) != 2 or kind is layers.AveragePooling1D):
        pytest.skip("takes no mask")
    options = {"pool_size": 32} if kind.__name__.startswith("AveragePooling") else {}
    inputs = x = keras.Input(shape)
    x = layers.Activation("relu")(layers.Masking()(x) if with_mask else x)
    x = kind(**options)(x)
    model = keras.Model(inputs, layers.Activation("linear")(x))
    values = np.random.default_rng(0).uniform(100, 300, (2, *shape)).astype("float32")
    exact = model.predict(values, verbose=0)
    plan(model, "mixed_float16").apply()
    np.testing.assert_allclose(model.predict(values, verbose=0), exact, rtol=0.02, atol=0.02)
