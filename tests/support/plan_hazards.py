"""Code that FP16 may harm, as people write it in layers: for the tests of plans and their table."""

import keras
from keras import layers, ops
from own_layer import Own


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


def masked(x):
    return x + ops.cast(ops.triu(ops.ones((8, 8)))[0], x.dtype) * -1e9


def own_softmax(x):
    exponentials = ops.exp(x - ops.max(x, axis=-1, keepdims=True))
    return exponentials / ops.sum(exponentials, axis=-1, keepdims=True)


def routed(x):
    """The two largest shares of each step, where near ones may change places."""
    shares, chosen = ops.top_k(ops.softmax(x), 2)
    return x * ops.sum(ops.one_hot(chosen, 8, dtype=x.dtype) * shares[..., None], axis=-2)


# FP16 loses on normal numbers, or where they are larger or constant.
HARMFUL = {
    "mask": masked,
    "epsilon": lambda x: x / (ops.abs(x) + 1e-09),
    "gram": lambda x: ops.einsum("bti,btj->bij", x, x),
    "root_mean_square": lambda x: x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-06),
    "norm": lambda x: x / ops.norm(x, axis=-1, keepdims=True),
    "centered": lambda x: ops.exp(x - ops.mean(x, axis=-1, keepdims=True)),
    "power_of_2": lambda x: 2.0**x,
    "branch": lambda x: ops.cond(ops.max(x) > 0, lambda: ops.exp(x), lambda: x),
    "fourth": lambda x: x**4,
    "loop": lambda x: ops.fori_loop(0, 3, lambda _, y: y / 2 + x**4, x),
    "product": lambda x: x * x * x,
    "chain": lambda x: ops.matmul(ops.matmul(x, ops.swapaxes(x, 1, 2)), x),
    "gelu_and_cube": lambda x: ops.gelu(x) + ops.sum(x**3, axis=-1, keepdims=True),
    "inverse_square": lambda x: x ** (-2),
    "harmonic": lambda x: 1 / ops.mean(1 / (ops.abs(x) + 0.0001), -1, keepdims=True),
    "small_divisor": lambda x: x / 1e-05,
    "timestamps": lambda x: x + steps(x, x.dtype)[:, None],
    "large_sum": lambda x: ops.sum(ops.exp(10 * ops.tanh(x)), -1, keepdims=True),
    "mask_in_float32": in_float32(masked),
    "fourth_in_float32": in_float32(lambda x: x**4),
    "root_of_1": lambda x: (x / ops.sqrt(1 + ops.square(x))) ** 4,
}

# FP16 loses no more than it does by rounding the arguments.
BENIGN = {
    **{name: keras.activations.get(name) for name in "softmax softplus selu mish".split()},
    "routed": routed,
    "logsumexp": lambda x: ops.logsumexp(x, axis=-1),
    "logaddexp": lambda x: ops.logaddexp(x, 2 * x),
    "own_softmax": own_softmax,
    "gauss": lambda x: ops.exp(-ops.square(x)),
    "clip": lambda x: ops.exp(ops.clip(x, -5.0, 5.0)),
    "large_constant": lambda x: ops.where(x > 0, x, -6e4),
    "large_epsilon": lambda x: x / (ops.abs(x) + 1e-3),
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
    "decay": lambda x: x * ops.exp(-0.1 * ops.cast(ops.arange(8), x.dtype)),
    "var_of_tanh": lambda x: x * ops.rsqrt(ops.var(ops.tanh(x), -1, keepdims=True) + 1e-3),
    "saturating": lambda x: (ops.abs(x) / (0.5 + 2 * ops.abs(x))) ** 4,
    "sum_of_gates": lambda x: x / ops.sum(ops.sigmoid(x), axis=1, keepdims=True),
    "by_maximum": lambda x: (x / (ops.max(ops.abs(x), axis=-1, keepdims=True) + 1e-3)) ** 4,
    "attention": lambda x: ops.matmul(ops.softmax(ops.matmul(x, ops.swapaxes(2 * x, 1, 2))), x),
    "dispatch": lambda x: ops.einsum(
        "bti,btj->bij", ops.one_hot(ops.argmax(x, -1), 4, dtype=x.dtype), x
    ),
    "parts": lambda x: x + ops.sum(ops.multiply(*ops.split(x, 2, -1)), -1, keepdims=True),
    "lengths": lambda x: x / ops.maximum(ops.cast(from_data(x), x.dtype), 1),
    "short_positions": lambda x: x + ops.cast(ops.arange(512), x.dtype)[:, None] / 512,
    "bytes": lambda x: x + ops.cast(ops.cast(x, "uint8"), x.dtype),
    "siren": lambda x: ops.sin(30 * x),
    "narrow_encoding": lambda x: ops.sin(
        ops.sigmoid(x[..., :1]) * 2.0 ** ops.cast(ops.arange(5), x.dtype)
    ),
    "wide_positions": in_float32(lambda x: ops.sin(x + steps(x, "float32")[:, None])),
    "sum": lambda x: ops.sum(x, axis=1),
    "var": lambda x: x * ops.rsqrt(ops.var(x, -1, keepdims=True) + 0.001),
    "narrowed": in_float32_after(lambda x: ops.cast(from_data(x), x.dtype)),
    "frequencies": lambda x: ops.sin(x[..., :1] * 2.0 ** ops.cast(ops.arange(8), x.dtype)),
}
