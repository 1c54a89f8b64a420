"""Rows of the sweep: every layer class that is no sequence model."""

from collections.abc import Iterator
from typing import Any

import keras
from keras import layers
from own_layer import Own
from sweep_rows import FLAT, IMAGE, STEPS, VOLUME, Row, one_layer


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
    by_factor = (
        "RandomBrightness RandomColorDegeneration RandomContrast RandomElasticTransform RandomHue "
        "RandomRotation RandomSaturation RandomSharpness"
    )
    plain = (
        "RandomColorJitter RandomErasing RandomFlip RandomGaussianBlur RandomGrayscale "
        "RandomInvert RandomPerspective RandAugment AugMix AutoContrast CutMix MixUp Solarization "
        "Equalization ContrastLimitedAdaptiveHistogramEqualization"
    )
    options: dict[str, dict[str, Any]] = {
        **{name: {"factor": 0.2} for name in by_factor.split()},
        **{name: {} for name in plain.split()},
        "RandomCrop": {"height": 8, "width": 8},
        "RandomPosterization": {"factor": 4},
        "RandomShear": {"x_factor": 0.2},
        "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.2},
        "RandomZoom": {"height_factor": 0.2},
    }
    for name, arguments in options.items():
        row = _layer(getattr(layers, name), (12, 12, 3), **arguments)
        if name == "Equalization":  # Keras cannot call it on symbolic tensors
            row = Row("layers", name, one_layer(lambda: Own(layers.Equalization()), IMAGE))
        yield row
