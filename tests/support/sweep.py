"""One small model for every layer, activation and op of Keras that a model can hold.

The rows feed the export tests and `docs/support.md`. What has no row is named in `NOT_SWEPT` with
the reason, so that a new Keras version cannot add something unseen.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers, ops

Build = Callable[[], keras.Model]


@dataclass(frozen=True)
class Row:
    """A model of the sweep.

    Attributes:
        group: "layers", "activations", "ops", "sequences" or "applications".
        name: what is swept, such as "Conv2D groups=3".
        build: makes the model, seeded.
    """

    group: str
    name: str
    build: Build

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def _inputs(shapes: tuple[tuple[int | None, ...], ...], dtype: str) -> list[Any]:
    return [keras.Input(shape, dtype=dtype, name=f"x{i}") for i, shape in enumerate(shapes)]


def one_layer(
    make: Callable[[], Any], *shapes: tuple[int | None, ...], dtype: str = "float32"
) -> Build:
    """A model of one layer on inputs of these shapes (without the batch axis)."""

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        inputs = _inputs(shapes, dtype)
        outputs = make()(inputs if len(inputs) > 1 else inputs[0])
        return keras.Model(inputs, outputs)

    return build


def one_call(
    call: Callable[..., Any], *shapes: tuple[int | None, ...], dtype: str = "float32"
) -> Build:
    """A model of one function on inputs of these shapes."""

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        inputs = _inputs(shapes, dtype)
        return keras.Model(inputs, call(*inputs))

    return build


IMAGE, VOLUME, STEPS, FLAT = (12, 12, 6), (6, 6, 6, 3), (10, 6), (6,)


def _per_rank(name: str, **options: Any) -> Iterator[Row]:
    """A 1-, 2- and 3-D layer such as Conv{n}D."""
    for rank, shape in ((1, STEPS), (2, IMAGE), (3, VOLUME)):
        cls = getattr(layers, name.format(n=rank), None)
        if cls is not None:
            label = " ".join([cls.__name__, *(f"{k}={v}" for k, v in options.items())])
            yield Row("layers", label, one_layer(lambda c=cls: c(**options), shape))


def _layer(cls: type, *shapes: tuple, dtype: str = "float32", **options: Any) -> Row:
    def text(value: Any) -> str:
        return getattr(value, "name", None) or str(value)

    label = " ".join([cls.__name__, *(f"{k}={text(v)}" for k, v in options.items())])
    return Row("layers", label, one_layer(lambda: cls(**options), *shapes, dtype=dtype))


def layer_rows() -> Iterator[Row]:
    """Every layer class, with the options that change its graph."""
    for options in (
        {"padding": "same", "activation": "relu"},
        {"strides": 2},
        {"dilation_rate": 2},
        {"groups": 3},
    ):
        size = 3 if "groups" in options else 4
        yield from _per_rank("Conv{n}D", filters=size, kernel_size=2, **options)
    yield _layer(layers.Conv1D, STEPS, filters=4, kernel_size=3, padding="causal", dilation_rate=2)
    for options in ({}, {"strides": 2, "padding": "same"}, {"dilation_rate": 2}):
        yield from _per_rank("Conv{n}DTranspose", filters=4, kernel_size=3, **options)
    for options in ({}, {"strides": 2, "padding": "same"}, {"depth_multiplier": 2}):
        yield from _per_rank("DepthwiseConv{n}D", kernel_size=3, **options)
        yield from _per_rank("SeparableConv{n}D", filters=4, kernel_size=3, **options)
    yield _layer(layers.DepthwiseConv2D, IMAGE, kernel_size=3, dilation_rate=2, padding="same")
    for name in ("MaxPooling{n}D", "AveragePooling{n}D"):
        yield from _per_rank(name, pool_size=2)
        yield from _per_rank(name, pool_size=3, strides=2, padding="same")
    for name in ("GlobalMaxPooling{n}D", "GlobalAveragePooling{n}D"):
        yield from _per_rank(name)
        yield from _per_rank(name, keepdims=True)
    for name in ("AdaptiveMaxPooling{n}D", "AdaptiveAveragePooling{n}D"):
        yield from _per_rank(name, output_size=3)
    for name in ("UpSampling{n}D", "ZeroPadding{n}D", "Cropping{n}D", "SpatialDropout{n}D"):
        yield from _per_rank(name, **({"rate": 0.5} if "Dropout" in name else {}))
    for interpolation in ("nearest", "bilinear", "bicubic"):
        yield _layer(layers.UpSampling2D, IMAGE, size=2, interpolation=interpolation)
    yield from _normalization_rows()
    yield from _dense_rows()
    yield from _merge_rows()
    yield from _preprocessing_rows()
    yield from _augmentation_rows()


def _normalization_rows() -> Iterator[Row]:
    statistics = {
        "moving_mean_initializer": keras.initializers.RandomNormal(seed=1),
        "moving_variance_initializer": keras.initializers.RandomUniform(0.5, 1.5, seed=2),
    }
    for shape in (FLAT, STEPS, IMAGE, VOLUME):
        rank = len(shape)
        name = f"BatchNormalization rank {rank}"
        make = one_layer(lambda: layers.BatchNormalization(**statistics), shape)
        yield Row("layers", name, make)
        yield Row(
            "layers",
            f"LayerNormalization rank {rank}",
            one_layer(layers.LayerNormalization, shape),
        )
    yield _layer(layers.BatchNormalization, IMAGE, axis=1)
    yield _layer(layers.LayerNormalization, IMAGE, axis=(1, 2, 3))
    yield _layer(layers.RMSNormalization, STEPS)
    yield _layer(layers.GroupNormalization, IMAGE, groups=3)
    yield _layer(layers.GroupNormalization, IMAGE, groups=-1)
    yield _layer(layers.UnitNormalization, STEPS)
    yield Row(
        "layers",
        "SpectralNormalization",
        one_layer(lambda: layers.SpectralNormalization(layers.Dense(4)), FLAT),
    )


def _dense_rows() -> Iterator[Row]:
    yield _layer(layers.Dense, FLAT, units=4)
    yield _layer(layers.Dense, STEPS, units=4, use_bias=False)
    yield _layer(layers.Dense, (None, 6), units=4)
    yield _layer(layers.EinsumDense, STEPS, equation="abc,cd->abd", output_shape=(None, 5))
    yield _layer(
        layers.EinsumDense, STEPS, equation="abc,cde->abde", output_shape=(None, 2, 3),
        bias_axes="de",
    )  # fmt: skip
    yield _layer(layers.Embedding, STEPS, dtype="int32", input_dim=10, output_dim=4)
    yield _layer(layers.ReversibleEmbedding, STEPS, dtype="int32", input_dim=10, output_dim=4)
    for cls in (layers.Flatten, layers.Identity, layers.Dropout, layers.Softmax, layers.Masking):
        yield _layer(cls, STEPS, **({"rate": 0.5} if cls is layers.Dropout else {}))
    for cls in (layers.GaussianDropout, layers.AlphaDropout):
        yield _layer(cls, STEPS, rate=0.5)
    yield _layer(layers.GaussianNoise, STEPS, stddev=0.5)
    yield _layer(layers.ActivityRegularization, STEPS, l2=0.1)
    yield _layer(layers.Activation, STEPS, activation="tanh")
    for cls in (layers.ELU, layers.LeakyReLU, layers.PReLU, layers.ReLU):
        yield _layer(cls, STEPS)
    yield _layer(layers.ReLU, STEPS, max_value=2.0, negative_slope=0.1, threshold=0.5)
    yield _layer(layers.Permute, IMAGE, dims=(3, 1, 2))
    yield _layer(layers.RepeatVector, FLAT, n=3)
    yield _layer(layers.Reshape, IMAGE, target_shape=(-1, 6))


def _merge_rows() -> Iterator[Row]:
    for cls in (
        layers.Add, layers.Average, layers.Concatenate, layers.Maximum, layers.Minimum,
        layers.Multiply, layers.Subtract,
    ):  # fmt: skip
        yield _layer(cls, STEPS, STEPS)
    yield _layer(layers.Concatenate, STEPS, STEPS, axis=1)
    yield _layer(layers.Dot, STEPS, STEPS, axes=2)
    yield _layer(layers.Dot, FLAT, FLAT, axes=1, normalize=True)


def _preprocessing_rows() -> Iterator[Row]:
    yield _layer(layers.Rescaling, IMAGE, scale=1 / 255, offset=-0.5)
    yield _layer(layers.Normalization, FLAT, mean=[0.5] * 6, variance=[2.0] * 6)
    yield _layer(layers.Normalization, FLAT, mean=[0.5] * 6, variance=[2.0] * 6, invert=True)
    yield _layer(layers.CenterCrop, IMAGE, height=8, width=6)
    for interpolation in ("nearest", "bilinear", "bicubic"):
        yield _layer(layers.Resizing, IMAGE, height=18, width=7, interpolation=interpolation)
    yield _layer(layers.Resizing, IMAGE, height=8, width=6, crop_to_aspect_ratio=True)
    yield _layer(layers.Discretization, FLAT, bin_boundaries=[-1.0, 0.0, 1.0])
    for mode in ("one_hot", "multi_hot", "count"):
        shape = (1,) if mode == "one_hot" else FLAT
        yield _layer(layers.CategoryEncoding, shape, dtype="int32", num_tokens=4, output_mode=mode)
    yield _layer(layers.HashedCrossing, (1,), (1,), dtype="int32", num_bins=5)
    yield _layer(layers.Hashing, FLAT, dtype="int32", num_bins=5)
    yield _layer(layers.IntegerLookup, FLAT, dtype="int64", vocabulary=[0, 1, 2])
    yield _layer(layers.MelSpectrogram, (512,), fft_length=128, sequence_stride=64, num_mel_bins=8)
    yield _layer(layers.STFTSpectrogram, (512, 1), frame_length=128, frame_step=64, fft_length=128)


def _augmentation_rows() -> Iterator[Row]:
    options: dict[str, dict[str, Any]] = {
        "RandomBrightness": {"factor": 0.2},
        "RandomColorDegeneration": {"factor": 0.2},
        "RandomColorJitter": {},
        "RandomContrast": {"factor": 0.2},
        "RandomCrop": {"height": 8, "width": 8},
        "RandomElasticTransform": {"factor": 0.2},
        "RandomErasing": {},
        "RandomFlip": {},
        "RandomGaussianBlur": {},
        "RandomGrayscale": {},
        "RandomHue": {"factor": 0.2},
        "RandomInvert": {},
        "RandomPerspective": {},
        "RandomPosterization": {"factor": 4},
        "RandomRotation": {"factor": 0.2},
        "RandomSaturation": {"factor": 0.2},
        "RandomSharpness": {"factor": 0.2},
        "RandomShear": {"x_factor": 0.2},
        "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.2},
        "RandomZoom": {"height_factor": 0.2},
        "RandAugment": {},
        "AugMix": {},
        "AutoContrast": {},
        "CutMix": {},
        "MixUp": {},
        "Solarization": {},
        "Equalization": {},
        "ContrastLimitedAdaptiveHistogramEqualization": {},
    }
    for name, arguments in options.items():
        row = _layer(getattr(layers, name), (12, 12, 3), **arguments)
        if name == "Equalization":  # Keras cannot call it on symbolic tensors
            row = Row("layers", name, one_layer(lambda: Function(layers.Equalization()), IMAGE))
        yield row


def sequence_rows() -> Iterator[Row]:
    """Recurrent layers, attention, masks, control flow, several inputs, varying lengths."""
    for cls in (layers.LSTM, layers.GRU, layers.SimpleRNN):
        for options in (
            {},
            {"return_sequences": True},
            {"go_backwards": True},
            {"unroll": True},
            {"return_sequences": True, "return_state": True},
        ):
            label = " ".join([cls.__name__, *(f"{k}={v}" for k, v in options.items())])
            yield Row("sequences", label, one_layer(lambda c=cls, o=options: c(4, **o), STEPS))
        yield Row(
            "sequences", f"{cls.__name__} over any length",
            one_layer(lambda c=cls: c(4), (None, 6)),
        )  # fmt: skip
        yield Row(
            "sequences", f"{cls.__name__} with masked embedding",
            one_call(
                lambda x, c=cls: c(4)(layers.Embedding(10, 6, mask_zero=True)(x)),
                (8,), dtype="int32",
            ),
        )  # fmt: skip
        yield Row(
            "sequences", f"Bidirectional {cls.__name__}",
            one_layer(lambda c=cls: layers.Bidirectional(c(4, return_sequences=True)), STEPS),
        )  # fmt: skip
    yield Row("sequences", "GRU reset_after=False", one_layer(
        lambda: layers.GRU(4, reset_after=False), STEPS))  # fmt: skip
    yield Row("sequences", "LSTM stateful", _stateful_lstm)
    yield Row("sequences", "StackedRNNCells", one_layer(
        lambda: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(4), layers.GRUCell(3)])),
        STEPS))  # fmt: skip
    yield Row("sequences", "RNN of a custom cell", one_layer(
        lambda: layers.RNN(LeakyCell(4)), STEPS))  # fmt: skip
    yield Row("sequences", "TimeDistributed Conv2D", one_layer(
        lambda: layers.TimeDistributed(layers.Conv2D(3, 3)), (4, 8, 8, 2)))  # fmt: skip
    for rank, shape in ((1, (4, 8, 2)), (2, (4, 8, 8, 2)), (3, (3, 6, 6, 6, 2))):
        cls = getattr(layers, f"ConvLSTM{rank}D")
        yield Row("sequences", cls.__name__, one_layer(lambda c=cls: c(3, 3), shape))
    for cls in (layers.Attention, layers.AdditiveAttention):
        yield Row("sequences", cls.__name__, one_layer(cls, STEPS, STEPS))
    yield Row("sequences", "Attention causal", one_call(
        lambda q, v: layers.Attention()([q, v], use_causal_mask=True), STEPS, STEPS))  # fmt: skip
    for label, options in (("", {}), (" causal", {"use_causal_mask": True})):
        for shape in (STEPS, (None, 6)):
            yield Row("sequences", f"MultiHeadAttention{label} on {shape}", one_call(
                lambda x, o=options: layers.MultiHeadAttention(2, 3)(x, x, **o),
                shape))  # fmt: skip
    yield Row("sequences", "MultiHeadAttention with padding mask", one_call(
        lambda x: _attend_to_itself(layers.Embedding(10, 6, mask_zero=True)(x)),
        (8,), dtype="int32"))  # fmt: skip
    yield Row("sequences", "GroupQueryAttention", one_call(
        lambda x: layers.GroupQueryAttention(3, 4, 2)(x, x), STEPS))  # fmt: skip
    yield Row("sequences", "ops.cond", one_call(
        lambda x: Function(lambda v: ops.cond(ops.sum(v) > 0, lambda: v * 2, lambda: v - 1))(x),
        FLAT))  # fmt: skip
    yield Row("sequences", "ops.while_loop", one_call(
        lambda x: Function(lambda v: ops.while_loop(
            lambda i, s: i < 5, lambda i, s: (i + 1, s * 1.5 + v), (0, v))[1])(x),
        FLAT))  # fmt: skip
    yield Row("sequences", "ops.fori_loop", one_call(
        lambda x: Function(lambda v: ops.fori_loop(0, 4, lambda i, s: s + v, v))(x),
        FLAT))  # fmt: skip
    yield Row("sequences", "ops.scan", one_call(
        lambda x: Function(lambda v: ops.scan(
            lambda c, r: (c + r, c * r), ops.zeros((6,)), ops.reshape(v[0], (10, 6)))[1])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.scan two carries", one_call(
        lambda x: Function(lambda v: ops.scan(
            lambda c, r: ((c[0] + r, ops.matmul(c[1], ops.eye(6)) + r), (c[0], c[1] * r)),
            (v[:, 0], v[:, 1]), ops.swapaxes(v, 0, 1))[1])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.scan without outputs", one_call(
        lambda x: Function(lambda v: ops.scan(
            lambda c, r: (c + r, None), v[:, 0], ops.swapaxes(v, 0, 1))[0])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.scan reversed", one_call(
        lambda x: Function(lambda v: ops.scan(
            lambda c, r: (c + r, c * r), v[:, 0], ops.swapaxes(v, 0, 1), reverse=True)[1])(x),
        STEPS))  # fmt: skip
    yield Row("sequences", "ops.switch", one_call(
        lambda x: Function(lambda v: ops.switch(
            ops.cast(ops.sum(v) > 0, "int32"), [ops.exp, ops.tanh], v))(x), FLAT))  # fmt: skip


def _attend_to_itself(x: Any) -> Any:
    return layers.MultiHeadAttention(2, 3)(x, x)


class Function(layers.Layer):
    """A function of one tensor as a layer, traced inside the model's call."""

    def __init__(self, function: Callable[[Any], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)

    def compute_output_shape(self, shape: tuple) -> tuple:
        return shape


class LeakyCell(layers.Layer):
    """A recurrent cell that no framework knows."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = self.state_size = self.output_size = units
        self.kernel = layers.Dense(units)

    def build(self, shape: tuple) -> None:
        self.kernel.build(shape)

    def call(self, inputs: Any, states: list) -> tuple:
        state = 0.9 * states[0] + 0.1 * ops.tanh(self.kernel(inputs))
        return state, [state]


def _stateful_lstm() -> keras.Model:
    keras.utils.set_random_seed(0)
    steps = keras.Input(batch_shape=(2, 10, 6), name="x0")
    return keras.Model(steps, layers.LSTM(4, stateful=True)(steps))


def activation_rows() -> Iterator[Row]:
    """Every function of `keras.activations`."""
    for name in dir(keras.activations):
        function = getattr(keras.activations, name)
        if name[0] == "_" or not callable(function) or name in NOT_SWEPT["activations"]:
            continue
        # Some of these take no symbolic tensors; in a layer each runs on real ones.
        arguments = (0.1, 0.0) if name == "threshold" else ()
        call = one_layer(lambda f=function, a=arguments: Function(lambda x: f(x, *a)), STEPS)
        yield Row("activations", name, call)


def op_rows() -> Iterator[Row]:
    """Every function of `keras.ops` that computes tensors from tensors."""
    for name in dir(ops):
        function = getattr(ops, name)
        if name[0] == "_" or not callable(function) or name in NOT_SWEPT["ops"]:
            continue
        if name in OP_CALLS:
            yield Row("ops", name, OP_CALLS[name])
        elif _required(function) == 1:
            yield Row("ops", name, one_call(function, STEPS))
        elif _required(function) == 2:
            yield Row("ops", name, one_call(function, STEPS, STEPS))


def _required(function: Callable[..., Any]) -> int:
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def _positive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls `function` on 0.1 <= x < 0.9: inside every function's domain."""
    return lambda *xs: function(*(ops.sigmoid(x) * 0.8 + 0.1 for x in xs))


def _symmetric(function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls `function` on well-conditioned symmetric positive definite matrices."""
    return lambda x: function(ops.matmul(x, ops.transpose(x, (0, 2, 1))) + 3 * ops.eye(4))


def _ints(function: Callable[..., Any], arguments: int = 2) -> Build:
    return one_call(function, *([STEPS] * arguments), dtype="int32")


def _square(function: Callable[..., Any]) -> Build:
    return one_call(_symmetric(function), (4, 4))


OP_CALLS: dict[str, Build] = {
    **{
        name: one_call(_positive(getattr(ops, name)), STEPS)
        for name in (
            "arccos arcsin arctanh log log10 log1p log2 sqrt rsqrt erfinv reciprocal logdet"
        ).split()
        if name != "logdet"
    },
    "arccosh": one_call(lambda x: ops.arccosh(_positive(lambda v: v)(x) + 1), STEPS),
    **{
        name: one_call(_positive(getattr(ops, name)), STEPS, STEPS)
        for name in ("power", "divide", "true_divide", "floor_divide", "mod", "fmod")
    },
    **{
        name: _ints(getattr(ops, name))
        for name in (
            "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift left_shift "
            "right_shift gcd lcm"
        ).split()
    },
    **{name: _ints(getattr(ops, name), 1) for name in ("bitwise_invert", "bitwise_not")},
    **{
        name: _square(getattr(ops, name))
        for name in "cholesky cholesky_inverse det inv logdet eigh slogdet qr svd lu_factor".split()
    },
    "solve": one_call(lambda a, b: ops.solve(_symmetric(lambda m: m)(a), b), (4, 4), (4, 2)),
    "solve_triangular": one_call(
        lambda a, b: ops.solve_triangular(_symmetric(ops.cholesky)(a), b, lower=True),
        (4, 4),
        (4, 2),
    ),
    "adaptive_average_pool": one_call(lambda x: ops.adaptive_average_pool(x, (3, 3)), IMAGE),
    "adaptive_max_pool": one_call(lambda x: ops.adaptive_max_pool(x, (3, 3)), IMAGE),
    "append": one_call(lambda a, b: ops.append(a, b, axis=1), STEPS, STEPS),
    "argpartition": one_call(lambda x: ops.sort(ops.argpartition(x, 3)[..., :3]), STEPS),
    "array_split": one_call(lambda x: ops.array_split(x, 3, axis=-1), STEPS),
    "associative_scan": one_call(
        lambda x: ops.associative_scan(lambda a, b: a + b, x, axis=1), STEPS
    ),
    "average_pool": one_call(lambda x: ops.average_pool(x, 2), IMAGE),
    "batch_normalization": one_call(
        lambda x: ops.batch_normalization(x, np.zeros(6, "f"), np.ones(6, "f"), -1), STEPS
    ),
    "bincount": one_call(lambda x: ops.bincount(x, minlength=4), FLAT, dtype="int32"),
    "binary_crossentropy": one_call(_positive(ops.binary_crossentropy), STEPS, STEPS),
    "broadcast_to": one_call(lambda x: ops.broadcast_to(ops.sum(x, axis=0), (3, 10, 6)), STEPS),
    "cast": one_call(lambda x: ops.cast(x, "int32"), STEPS),
    "categorical_crossentropy": one_call(_positive(ops.categorical_crossentropy), STEPS, STEPS),
    "cdist": one_call(ops.cdist, STEPS, STEPS),
    "clip": one_call(lambda x: ops.clip(x, -0.5, 0.5), STEPS),
    "concatenate": one_call(lambda a, b: ops.concatenate([a, b], axis=-1), STEPS, STEPS),
    "conv": one_call(lambda x: ops.conv(x, np.ones((3, 3, 6, 2), "f")), IMAGE),
    "conv_transpose": one_call(
        lambda x: ops.conv_transpose(x, np.ones((3, 3, 2, 6), "f"), 2, padding="same"), IMAGE
    ),
    "cross": one_call(ops.cross, (4, 3), (4, 3)),
    "depth_to_space": one_call(lambda x: ops.depth_to_space(x, 2), (4, 4, 8)),
    "depthwise_conv": one_call(lambda x: ops.depthwise_conv(x, np.ones((3, 3, 6, 1), "f")), IMAGE),
    "digitize": one_call(lambda x: ops.digitize(x, np.array([-1.0, 0.0, 1.0])), STEPS),
    "dot": one_call(lambda x: ops.dot(x, np.ones((6, 3), "f")), STEPS),
    "dot_product_attention": one_call(ops.dot_product_attention, (8, 2, 4), (8, 2, 4), (8, 2, 4)),
    "dsplit": one_call(lambda x: ops.dsplit(x, 2), (4, 4, 6)),
    "einsum": one_call(lambda a, b: ops.einsum("bij,bkj->bik", a, b), STEPS, STEPS),
    "expand_dims": one_call(lambda x: ops.expand_dims(x, 1), STEPS),
    "extract_sequences": one_call(lambda x: ops.extract_sequences(x, 4, 2), (16,)),
    "fft": one_call(lambda a, b: ops.fft((a, b)), STEPS, STEPS),
    "fft2": one_call(lambda a, b: ops.fft2((a, b)), STEPS, STEPS),
    "ifft2": one_call(lambda a, b: ops.ifft2((a, b)), STEPS, STEPS),
    "irfft": one_call(lambda a, b: ops.irfft((a, b)), STEPS, STEPS),
    "fold": one_call(lambda x: ops.fold(x, (6, 6), 2, stride=2), (8, 9)),
    "full_like": one_call(lambda x: ops.full_like(x, 2.0), STEPS),
    "get_item": one_call(lambda x: ops.get_item(x, (slice(None), 2)), STEPS),
    "heaviside": one_call(ops.heaviside, STEPS, STEPS),
    "hsplit": one_call(lambda x: ops.hsplit(x, 2), STEPS),
    "hstack": one_call(lambda a, b: ops.hstack([a, b]), STEPS, STEPS),
    "dstack": one_call(lambda a, b: ops.dstack([a, b]), STEPS, STEPS),
    "vstack": one_call(lambda a, b: ops.vstack([a, b]), STEPS, STEPS),
    "vsplit": one_call(lambda x: ops.vsplit(x[0], 2), STEPS),
    "in_top_k": one_call(lambda x: ops.in_top_k(ops.argmax(x, -1), x, 2), FLAT),
    "isin": one_call(lambda x: ops.isin(x, np.array([0, 3], "int32")), STEPS, dtype="int32"),
    "istft": one_call(lambda a, b: ops.istft((a, b), 16, 8, 16), (6, 9), (6, 9)),
    "stft": one_call(lambda x: ops.stft(x, 16, 8, 16), (64,)),
    "layer_normalization": one_call(lambda x: ops.layer_normalization(x), STEPS),
    "rms_normalization": one_call(lambda x: ops.rms_normalization(x), STEPS),
    "linspace": one_call(lambda a, b: ops.linspace(a, b, 5), FLAT, FLAT),
    "logspace": one_call(lambda a, b: ops.logspace(a, b, 5), FLAT, FLAT),
    "geomspace": one_call(_positive(lambda a, b: ops.geomspace(a, b, 5)), FLAT, FLAT),
    "map": one_call(lambda x: Function(lambda v: ops.map(ops.exp, v))(x), STEPS),
    "vectorized_map": one_call(
        lambda x: Function(lambda v: ops.vectorized_map(ops.exp, v))(x), STEPS
    ),
    "matmul": one_call(lambda a, b: ops.matmul(a, ops.swapaxes(b, 1, 2)), STEPS, STEPS),
    "max_pool": one_call(lambda x: ops.max_pool(x, 2), IMAGE),
    "meshgrid": one_call(lambda a, b: ops.meshgrid(a[0], b[0]), FLAT, FLAT),
    "moments": one_call(lambda x: ops.moments(x, axes=[1]), STEPS),
    "moveaxis": one_call(lambda x: ops.moveaxis(x, 1, -1), IMAGE),
    "multi_hot": one_call(lambda x: ops.multi_hot(x, 4), FLAT, dtype="int32"),
    "one_hot": one_call(lambda x: ops.one_hot(x, 4), FLAT, dtype="int32"),
    "pad": one_call(lambda x: ops.pad(x, ((0, 0), (1, 2), (0, 1)), mode="reflect"), STEPS),
    "percentile": one_call(lambda x: ops.percentile(x, 30.0, axis=-1), STEPS),
    "quantile": one_call(lambda x: ops.quantile(x, 0.3, axis=-1), STEPS),
    "nanpercentile": one_call(lambda x: ops.nanpercentile(x, 30.0, axis=-1), STEPS),
    "nanquantile": one_call(lambda x: ops.nanquantile(x, 0.3, axis=-1), STEPS),
    "histogram": one_call(lambda x: ops.histogram(ops.reshape(x, (-1,)), 4), STEPS),
    "prod": one_call(lambda x: ops.prod(x, axis=-1), STEPS),
    "nanprod": one_call(lambda x: ops.nanprod(x, axis=-1), STEPS),
    "norm": one_call(lambda x: ops.norm(x, axis=-1), STEPS),
    "squeeze": one_call(lambda x: ops.squeeze(x, axis=-1), (6, 1)),
    "polar": one_call(lambda a, b: ops.real(ops.polar(a, b)), STEPS, STEPS),
    "psnr": one_call(lambda a, b: ops.psnr(a, b, 1.0), STEPS, STEPS),
    "rearrange": one_call(lambda x: ops.rearrange(x[0], "h w c -> c (h w)"), IMAGE),
    "repeat": one_call(lambda x: ops.repeat(x, 2, axis=1), STEPS),
    "reshape": one_call(lambda x: ops.reshape(x, (-1, 5, 12)), STEPS),
    "roll": one_call(lambda x: ops.roll(x, 2, axis=1), STEPS),
    "round": one_call(lambda x: ops.round(x * 10), STEPS),
    "saturate_cast": one_call(lambda x: ops.saturate_cast(x * 300, "uint8"), STEPS),
    "scatter": one_call(lambda x: ops.scatter(np.array([[0], [1]]), x[0], (4, 6)), (2, 6)),
    "scatter_update": one_call(
        lambda x: ops.scatter_update(x, np.array([[0, 0]]), np.ones((1, 6), "f")), STEPS
    ),
    "searchsorted": one_call(
        lambda x: ops.searchsorted(ops.arange(4, dtype="float32"), x[0]), FLAT
    ),
    **{
        name: one_call(
            lambda x, n=name: getattr(ops, n)(x[0], np.array([0, 1, 1]), num_segments=2), (3, 6)
        )
        for name in ("segment_max", "segment_min", "segment_prod", "segment_sum")
        if hasattr(ops, name)
    },
    "separable_conv": one_call(
        lambda x: ops.separable_conv(x, np.ones((3, 3, 6, 1), "f"), np.ones((1, 1, 6, 2), "f")),
        IMAGE,
    ),
    "slice": one_call(lambda x: ops.slice(x, (0, 1, 2), (1, 3, 3)), STEPS),
    "slice_update": one_call(
        lambda x: ops.slice_update(x, (0, 1, 2), np.ones((1, 2, 2), "f")), STEPS
    ),
    "space_to_depth": one_call(lambda x: ops.space_to_depth(x, 2), (4, 4, 8)),
    "sparse_categorical_crossentropy": one_call(
        lambda x: ops.sparse_categorical_crossentropy(ops.argmax(x, -1), ops.softmax(x)), STEPS
    ),
    "split": one_call(lambda x: ops.split(x, 2, axis=1), STEPS),
    "stack": one_call(lambda a, b: ops.stack([a, b], axis=1), STEPS, STEPS),
    "swapaxes": one_call(lambda x: ops.swapaxes(x, 1, 2), STEPS),
    "take": one_call(lambda x: ops.take(x, np.array([2, 0]), axis=1), STEPS),
    "take_along_axis": one_call(
        lambda x: ops.take_along_axis(x, ops.argsort(x, axis=1), axis=1), STEPS
    ),
    "tensordot": one_call(lambda a, b: ops.tensordot(a, b, axes=[[1, 2], [1, 2]]), STEPS, STEPS),
    "threshold": one_call(lambda x: ops.threshold(x, 0.1, 0.0), STEPS),
    "tile": one_call(lambda x: ops.tile(x, (1, 2, 1)), STEPS),
    "top_k": one_call(lambda x: ops.top_k(x, 3), STEPS),
    "unfold": one_call(lambda x: ops.unfold(x, 2), (4, 6, 6)),
    "unravel_index": one_call(lambda x: ops.unravel_index(x, (2, 3)), FLAT, dtype="int32"),
    "unstack": one_call(lambda x: ops.unstack(x, axis=1), (3, 6)),
    "vander": one_call(lambda x: ops.vander(x[0], 3), FLAT),
    "diag": one_call(lambda x: ops.diag(x[0]), FLAT),
    "diagflat": one_call(lambda x: ops.diagflat(x[0]), FLAT),
    "tri": one_call(lambda x: x * ops.tri(10, 6), STEPS),
    "cov": one_call(lambda x: ops.cov(x[0]), STEPS),
    "corrcoef": one_call(lambda x: ops.corrcoef(x[0]), STEPS),
    "correlate": one_call(lambda a, b: ops.correlate(a[0], b[0]), FLAT, FLAT),
    "convolve": one_call(lambda a, b: ops.convolve(a[0], b[0]), FLAT, FLAT),
    "inner": one_call(lambda a, b: ops.inner(a[0], b[0]), STEPS, STEPS),
    "outer": one_call(lambda a, b: ops.outer(a[0], b[0]), FLAT, FLAT),
    "kron": one_call(lambda a, b: ops.kron(a[0], b[0]), STEPS, STEPS),
    "vdot": one_call(lambda a, b: ops.vdot(a[0], b[0]), FLAT, FLAT),
    "ldexp": one_call(lambda x: ops.ldexp(x, np.array(2, "int32")), STEPS),
    "rot90": one_call(lambda x: ops.rot90(x, axes=(1, 2)), IMAGE),
    "sinc": one_call(ops.sinc, STEPS),
    "where": one_call(lambda a, b: ops.where(a > 0, a, b), STEPS, STEPS),
    "logical_not": one_call(lambda x: ops.logical_not(x > 0), STEPS),
    **{
        name: one_call(lambda a, b, n=name: getattr(ops, n)(a > 0, b > 0), STEPS, STEPS)
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    "select": one_call(lambda a, b: ops.select([a > 0, b > 0], [a, b], 0.0), STEPS, STEPS),
    "count_nonzero": one_call(lambda x: ops.count_nonzero(x > 0, axis=-1), STEPS),
    "trapezoid": one_call(lambda x: ops.trapezoid(x, axis=-1), STEPS),
    "view_as_complex": one_call(lambda x: ops.real(ops.view_as_complex(x)), (5, 2)),
    "view_as_real": one_call(lambda x: ops.view_as_real(ops.view_as_complex(x)), (5, 2)),
    "real": one_call(ops.real, STEPS),
    "imag": one_call(lambda x: ops.imag(ops.view_as_complex(x)), (5, 2)),
    "angle": one_call(lambda x: ops.angle(ops.view_as_complex(x)), (5, 2)),
    "conj": one_call(lambda x: ops.imag(ops.conj(ops.view_as_complex(x))), (5, 2)),
    "vectorize": one_call(lambda x: Function(ops.vectorize(lambda v: v * 2))(x), STEPS),
}

_MAKES_NO_GRAPH = "makes no tensor from its inputs: a constant of the model"
_CREATES = (
    "bartlett blackman hamming hanning kaiser arange array empty eye full identity ones zeros"
)
_HAS_ROW_ELSEWHERE = "has a row under sequences"

# Layers whose rows are called after what they do.
SWEPT_INSIDE = {
    "RNN", "StackedRNNCells", "TimeDistributed", "Bidirectional", "Attention", "MultiHeadAttention",
    "GroupedQueryAttention",
}  # fmt: skip

NOT_SWEPT: dict[str, dict[str, str]] = {
    "layers": {
        **dict.fromkeys(("Layer", "Wrapper", "InputSpec", "InputLayer"), "no computation"),
        **dict.fromkeys(("JaxLayer", "FlaxLayer", "TorchModuleWrapper"), "another framework's"),
        **dict.fromkeys(("GRUCell", "LSTMCell", "SimpleRNNCell"), "swept inside RNN layers"),
        **dict.fromkeys(
            ("StringLookup", "TextVectorization"), "strings: runs before the model, in tf.data"
        ),
        "Lambda": "arbitrary code: refused unless loading is unsafe",
        "Pipeline": "a list of other layers",
        "TFSMLayer": "a SavedModel: convert it directly",
        "MaxNumBoundingBoxes": "bounding boxes are training data",
    },
    "activations": dict.fromkeys(("deserialize", "get", "serialize"), "no function"),
    "ops": {
        **dict.fromkeys(_CREATES.split(), _MAKES_NO_GRAPH),
        **dict.fromkeys(
            "convert_to_numpy convert_to_tensor is_tensor dtype ndim shape size".split(),
            "no tensor computation",
        ),
        **dict.fromkeys("cond fori_loop scan switch while_loop".split(), _HAS_ROW_ELSEWHERE),
        **dict.fromkeys("custom_gradient jvp stop_gradient".split(), "about gradients"),
        **dict.fromkeys(
            "ctc_decode ctc_loss lstsq eig matrix_rank pinv nonzero unique view allclose".split(),
            "runs outside a static graph: results of data-dependent shape, losses or general "
            "linear algebra",
        ),
    },
}  # fmt: skip


_NO_FORM = "no ONNX form for"
_KERAS_CANNOT = "cannot be traced"  # Keras itself fails on a batch of unknown size, or on tensors

# Rows that do not export, with a piece of the message that says why.
UNSUPPORTED: dict[str, str] = {
    "Conv3D filters=3 kernel_size=2 groups=3": "TensorFlow itself cannot run this model here",
    "HashedCrossing num_bins=5": _NO_FORM,
    "Hashing num_bins=5": _NO_FORM,
    "IntegerLookup vocabulary=[0, 1, 2]": "uses a table or tensor that cannot be a constant",
    "ops.scan reversed": "differs from Keras",  # tf2onnx collects what a loop writes in its order
    "ops.switch": _NO_FORM,
    "argpartition": "ONNX Runtime cannot run the export",
    "associative_scan": "cannot convert this graph",
    **dict.fromkeys(
        "cholesky cholesky_inverse eigh i0 inv logdet nextafter qr slogdet solve solve_triangular "
        "svd".split(),
        _NO_FORM,
    ),
    **dict.fromkeys(
        "angle conj conv_transpose corrcoef gcd histogram imag isin kron lcm lu_factor "
        "nanpercentile nanquantile unfold unravel_index vectorize view_as_complex "
        "view_as_real".split(),
        _KERAS_CANNOT,
    ),
}


def application_rows(every: bool = False) -> Iterator[Row]:
    """The smallest member of each family of `keras.applications`, or every one."""
    smallest = (
        "ConvNeXtTiny DenseNet121 EfficientNetB0 EfficientNetV2B0 InceptionResNetV2 InceptionV3 "
        "MobileNet MobileNetV2 MobileNetV3Small NASNetMobile ResNet50 ResNet50V2 VGG16 Xception"
    ).split()
    names = [name for name in dir(keras.applications) if name[0].isupper()] if every else smallest
    for name in names:
        yield Row("applications", name, lambda n=name: _application(n))


def _application(name: str) -> keras.Model:
    keras.utils.set_random_seed(0)
    build = getattr(keras.applications, name)
    side = 224 if name.startswith("NASNet") else 96
    if name == "NASNetLarge":
        side = 331
    return build(weights=None, input_shape=(side, side, 3), classes=10)


def all_rows(every_application: bool = False) -> list[Row]:
    """The whole sweep, in the order of `docs/support.md`."""
    return [
        *layer_rows(),
        *sequence_rows(),
        *activation_rows(),
        *op_rows(),
        *application_rows(every_application),
    ]
