"""Rows of the sweep: every activation, and every op that computes tensors from tensors."""

import inspect
from collections.abc import Callable, Container, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops
from own_layer import Own
from sweep_rows import FLAT, IMAGE, STEPS, Build, Row, one_call, one_layer


def activation_rows(skipped: Container[str]) -> Iterator[Row]:
    """Every function of `keras.activations`."""
    for name in dir(keras.activations):
        function = getattr(keras.activations, name)
        if name[0] == "_" or not callable(function) or name in skipped:
            continue
        # Some of these take no symbolic tensors; in a layer each runs on real ones.
        arguments = (0.1, 0.0) if name == "threshold" else ()
        call = one_layer(lambda f=function, a=arguments: Own(lambda x: f(x, *a)), STEPS)
        yield Row("activations", name, call)


def op_rows(skipped: Container[str]) -> Iterator[Row]:
    """Every function of `keras.ops` that computes tensors from tensors."""
    for name in dir(ops):
        function = getattr(ops, name)
        if name[0] == "_" or not callable(function) or name in skipped:
            continue
        if name in OP_CALLS:
            yield Row("ops", name, OP_CALLS[name])
        elif _required(function) == 1:
            yield Row("ops", name, one_call(function, STEPS))
        elif _required(function) == 2:
            yield Row("ops", name, one_call(function, STEPS, STEPS))


def image_rows() -> Iterator[Row]:
    """Every function of `keras.ops.image`."""
    for name, build in IMAGE_CALLS.items():
        yield Row("ops", f"image.{name}", build)


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
    "hsplit": one_call(lambda x: ops.hsplit(x, 2), STEPS),
    "hstack": one_call(lambda a, b: ops.hstack([a, b]), STEPS, STEPS),
    "dstack": one_call(lambda a, b: ops.dstack([a, b]), STEPS, STEPS),
    "vstack": one_call(lambda a, b: ops.vstack([a, b]), STEPS, STEPS),
    "vsplit": one_call(lambda x: ops.vsplit(x[0], 2), STEPS),
    "in_top_k": one_call(lambda x: ops.in_top_k(ops.argmax(x, -1), x, 2), FLAT),
    "isin": one_call(lambda x: ops.isin(x, np.array([0, 3], "int32")), STEPS, dtype="int32"),
    "istft": one_call(lambda a, b: ops.istft((a, b), 16, 8, 16), (6, 9), (6, 9)),
    "stft": one_call(lambda x: ops.stft(x, 16, 8, 16), (64,)),
    "linspace": one_call(lambda a, b: ops.linspace(a, b, 5), FLAT, FLAT),
    "logspace": one_call(lambda a, b: ops.logspace(a, b, 5), FLAT, FLAT),
    "geomspace": one_call(_positive(lambda a, b: ops.geomspace(a, b, 5)), FLAT, FLAT),
    "map": one_call(lambda x: Own(lambda v: ops.map(ops.exp, v))(x), STEPS),
    "vectorized_map": one_call(lambda x: Own(lambda v: ops.vectorized_map(ops.exp, v))(x), STEPS),
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
    "imag": one_call(lambda x: ops.imag(ops.view_as_complex(x)), (5, 2)),
    "angle": one_call(lambda x: ops.angle(ops.view_as_complex(x)), (5, 2)),
    "conj": one_call(lambda x: ops.imag(ops.conj(ops.view_as_complex(x))), (5, 2)),
    "vectorize": one_layer(
        lambda: keras.layers.Lambda(ops.vectorize(lambda v: v * 2), output_shape=STEPS), STEPS
    ),
}


_CORNERS = np.array([[[0, 0], [11, 0], [0, 11], [11, 11]]], "f")
_MOVED = np.array([[[1, 1], [11, 0], [0, 11], [11, 11]]], "f")
_SLANT = np.array([1, 0.1, 0, 0.1, 1, 0, 0, 0], "f")
_SCALE, _SHIFT = np.array([1.3, 1.3], "f"), np.array([0.5, 0.5], "f")
PICTURE = (12, 12, 3)

IMAGE_CALLS: dict[str, Build] = {
    "affine_transform": one_call(lambda x: ops.image.affine_transform(x, _SLANT), PICTURE),
    "crop_images": one_call(lambda x: ops.image.crop_images(x, 1, 1, 2, 2), PICTURE),
    "elastic_transform": one_call(lambda x: ops.image.elastic_transform(x, seed=1), PICTURE),
    "extract_patches": one_call(lambda x: ops.image.extract_patches(x, 3, strides=2), PICTURE),
    "extract_patches_3d": one_call(lambda x: ops.image.extract_patches_3d(x, 2), (6, 6, 6, 2)),
    "gaussian_blur": one_call(ops.image.gaussian_blur, PICTURE),
    "hsv_to_rgb": one_call(_positive(ops.image.hsv_to_rgb), PICTURE),
    "map_coordinates": one_call(
        lambda x: ops.image.map_coordinates(
            x[0, :, :, 0], np.array([[0.5, 1.5], [2.5, 3.5]], "f"), order=1
        ),
        PICTURE,
    ),
    "pad_images": one_call(lambda x: ops.image.pad_images(x, 1, 1, 2, 2), PICTURE),
    "perspective_transform": one_call(
        lambda x: ops.image.perspective_transform(x, _CORNERS, _MOVED), PICTURE
    ),
    **{
        f"resize interpolation={name} antialias={antialias}": one_call(
            lambda x, n=name, a=antialias: ops.image.resize(
                x, (5, 7), interpolation=n, antialias=a
            ),
            PICTURE,
        )
        for name in ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "area")
        for antialias in (False, True)
    },
    "rgb_to_grayscale": one_call(ops.image.rgb_to_grayscale, PICTURE),
    "rgb_to_hsv": one_call(_positive(ops.image.rgb_to_hsv), PICTURE),
    "scale_and_translate": one_call(
        lambda x: ops.image.scale_and_translate(
            ops.reshape(x[0], (12, 6, 6)), (12, 8, 8), _SCALE, _SHIFT, (1, 2), "linear"
        ),
        (12, 12, 3),
    ),
    "sobel_edges": one_call(ops.image.sobel_edges, PICTURE),
    "ssim": one_call(lambda a, b: ops.image.ssim(a, b, 1.0), PICTURE, PICTURE),
}
