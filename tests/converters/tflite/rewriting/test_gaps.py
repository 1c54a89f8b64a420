"""What TFLite lacks, said otherwise: the same numbers, and a file without TensorFlow ops."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tfmp.converters import open_source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.converters.tflite.rewriting.gaps import without_gaps


def model(make: Callable, *shape: int | None, dtype: str = "float32") -> keras.Model:
    inputs = keras.Input(shape, dtype=dtype, name="x")
    return keras.Model(inputs, {"y": make(inputs)})


def dilated(name: str, **options: object) -> Callable:
    return getattr(layers, name)(
        kernel_size=3, dilation_rate=2, bias_initializer="normal", **options
    )


def second_after_first(x):
    """Which position may look at which: a table with an axis in front, over an open length."""
    at = keras.ops.arange(keras.ops.shape(x)[1])
    later = keras.ops.cast(at[:, None] >= at, "float32")
    return keras.ops.matmul(later[None, 1:, :], x)


def patches(padding: str, rate: int) -> keras.layers.Layer:
    def cut(images):
        size, step, rates = [1, 3, 2, 1], [1, 2, 2, 1], [1, rate, rate, 1]
        return tf.image.extract_patches(images, size, step, rates, padding)

    return layers.Lambda(cut)


def turned(x):
    z = tf.concat([tf.complex(x, -x), tf.complex(x * x, x)], -1)
    z = tf.matmul(z, tf.stack(tf.unstack(z, axis=-1), -1), adjoint_b=True)
    return tf.math.angle(z) * tf.abs(z)


def listed(x):
    rows = tf.TensorArray(tf.float32, 3)
    for i in (1, 0, 2):
        rows = rows.write(i, x[:, i] * 2.0)
    return tf.transpose(rows.stack(), (1, 0, 2))


def bits(x):
    one, other = x * 715827883 - 7, 1431655765 - x
    parts = tf.bitwise.bitwise_and(one, other), tf.bitwise.bitwise_or(one, other)
    return tf.concat([*parts, tf.bitwise.invert(one), tf.bitwise.left_shift(other, x)], -1)


def there_and_back(x):
    turned = tf.transpose(x, (0, 3, 1, 2))
    return tf.signal.irfft2d(tf.signal.rfft2d(turned) * tf.complex(0.5, 1.0))


def turned_thrice(x):
    z = tf.signal.fft3d(tf.complex(x, x * x))
    return tf.math.imag(tf.signal.ifft(z))


def twice(x):
    def step(index, value):
        return index + 1, tf.image.rgb_to_hsv(tf.abs(value))

    return tf.while_loop(lambda index, value: index < 2, step, (0, x))[1]


FUNCTIONS: dict[str, Callable] = {
    "inverse spectrum": there_and_back,
    "three axes": turned_thrice,
    "places": lambda x: tf.searchsorted(tf.sort(x, -1), x[..., :2] + 0.1, side="right"),
    "turned picture": lambda x: keras.ops.image.affine_transform(
        x, np.float32([1.1, 0.2, -0.7, 0.1, 0.9, 1.3, 0, 0]), fill_mode="reflect"
    ),
    "best two": lambda x: tf.cast(
        tf.math.in_top_k(tf.argmax(x[:, 1, :, 0], -1), x[:, 0, :, 0], 2), tf.float32
    ),
    "small exponentials": lambda x: 1e6 * tf.math.expm1(1e-6 * x),
    "cross": lambda x: tf.linalg.cross(x, tf.reverse(x, [1])),
    "bias in front": lambda x: tf.nn.bias_add(x[..., 0], [1.0, 2.0, 3.0, 4.0], "NCHW"),
}


QUICK: dict[str, Callable[[], keras.Model]] = {
    "max pool, same": lambda: model(layers.MaxPooling3D(3, 2, padding="same"), 5, 6, 4, 2),
    "argmin": lambda: model(lambda x: keras.ops.argmin(x, axis=-1), 7),
    "erf": lambda: model(keras.ops.erf, 9),
    "arctan": lambda: model(keras.ops.arctan, 9),
    "bicubic up": lambda: model(layers.UpSampling2D(2, interpolation="bicubic"), 4, 5, 2),
    "dilated, open image, same": lambda: model(
        dilated("Conv2D", filters=2, padding="same"), None, None, 3
    ),
    "Lanczos": lambda: model(layers.Resizing(7, 4, interpolation="lanczos3"), 5, 6, 2),
    "complex numbers": lambda: model(layers.Lambda(turned), 3, 4),
    "cosine transform": lambda: model(layers.Lambda(lambda x: tf.signal.dct(x)), 2, 6),
    "bits": lambda: model(layers.Lambda(bits, output_shape=(12,)), 3, dtype="int32"),
    "colours": lambda: model(layers.Lambda(lambda x: tf.image.hsv_to_rgb(tf.sigmoid(x))), 4, 6, 3),
    "in a loop": lambda: model(layers.Lambda(twice), 4, 6, 3),
    "list without a loop": lambda: model(layers.Lambda(listed), 3, 4),
    "marks": lambda: model(layers.CategoryEncoding(4, output_mode="multi_hot"), 3, dtype="int32"),
    "max pool, open depth": lambda: model(layers.MaxPooling3D(2), None, 6, 4, 2),
    "patches, same": lambda: model(patches("SAME", 1), 5, 6, 3),
    "one feature": lambda: model(lambda x: x + layers.MultiHeadAttention(2, 3)(x, x), 6, 1),
    "one feature, two products": lambda: model(lambda x: layers.Dense(4)(layers.Dense(4)(x)), 6, 1),
}
OTHERS: dict[str, Callable[[], keras.Model]] = {
    "max pool": lambda: model(layers.MaxPooling3D(2), 5, 6, 4, 2),
    "average pool": lambda: model(layers.AveragePooling3D((2, 3, 1)), 5, 6, 4, 2),
    "average pool, same": lambda: model(layers.AveragePooling3D(3, 2, padding="same"), 5, 6, 4, 2),
    "argmax": lambda: model(lambda x: keras.ops.argmax(x, axis=-1), 7),
    **{
        name: lambda name=name: model(
            lambda x: getattr(keras.ops, name)(
                {"arccosh": keras.ops.abs(x) + 1.0}.get(name, keras.ops.tanh(x) * 0.99)
                if name in ("arccos", "arccosh", "arcsin", "arctanh", "erfinv")
                else x
            ),
            9,
        )
        for name in "arccos arccosh arcsin arcsinh arctanh cosh erfinv sinh tan".split()
    },
    "bicubic down": lambda: model(layers.Resizing(3, 7, interpolation="bicubic"), 5, 6, 2),
    "area": lambda: model(layers.Resizing(3, 4, interpolation="area"), 5, 6, 2),
    "antialias": lambda: model(layers.Resizing(3, 4, antialias=True), 5, 6, 2),
    "patches": lambda: model(patches("VALID", 2), 6, 6, 3),
    "spectrum": lambda: model(layers.Lambda(lambda x: tf.abs(tf.signal.rfft(x, [12]))), 2, 10),
    **{
        name: lambda function=function: model(layers.Lambda(function), 4, 6, 3)
        for name, function in FUNCTIONS.items()
    },
    "dilated, open length": lambda: model(dilated("Conv1D", filters=2), None, 3),
    "dilated, open length, causal": lambda: model(
        dilated("Conv1D", filters=2, padding="causal"), None, 3
    ),
    "dilated, open length, same": lambda: model(
        dilated("Conv1D", filters=2, padding="same"), None, 3
    ),
    "dilated, open image": lambda: model(dilated("Conv2D", filters=2), None, None, 3),
    "new axes, open length": lambda: model(
        layers.Lambda(second_after_first, output_shape=(None, 3)), None, 3
    ),
    "counts": lambda: model(layers.CategoryEncoding(4, output_mode="count"), 3, dtype="int32"),
}


# So many cases are converted as one model.
TOGETHER = 8


def groups() -> list:
    """Names of cases, the quick ones apart."""
    found = []
    for names, marks in (([*QUICK], ()), ([*OTHERS], pytest.mark.slow)):
        for start in range(0, len(names), TOGETHER):
            group = names[start : start + TOGETHER]
            found.append(pytest.param(group, marks=marks, id=f"{group[0]} and others"))
    return found


def drawn(name: str, spec: TensorSpec) -> np.ndarray:
    if spec.dtype != "float32":
        return np.asarray([[0, 1, 1], [3, 3, 2]], spec.dtype)
    shape = [size or 9 for size in spec.shape[1:]]
    x = np.random.default_rng(1).normal(size=(2, *shape)).astype(spec.dtype)
    if name.startswith("arg"):
        x[0, :3] = [-0.0, 0.0, -0.0]
    return x


@pytest.mark.parametrize("names", groups())
def test_the_numbers_stay_the_same(names: list[str], export: Callable, tmp_path: Path) -> None:
    keras.utils.set_random_seed(2)
    inputs, outputs = [], {}
    for name in names:
        case = (QUICK | OTHERS)[name]()
        (own,) = case.inputs
        place = f"{len(inputs):02}"
        x = keras.Input(own.shape[1:], dtype=own.dtype, name=f"x{place}")
        inputs.append(x)
        outputs[f"y{place}"] = case(x)["y"]
    source = open_source(keras.Model(inputs, outputs))
    batch = {spec.name: drawn(name, spec) for name, spec in zip(names, source.inputs, strict=True)}
    expected = source.forward(batch)
    filled, (note,) = without_gaps(source)
    # 1.5e-7 is the bound of the series for erf; the others only round in another order.
    for name, (key, right) in zip(names, sorted(expected.items()), strict=True):
        np.testing.assert_allclose(
            filled.forward(batch)[key], right, atol=5e-7, rtol=1e-5, err_msg=name
        )
    file = export(source, tmp_path / "model.tflite", precision="fp32")
    assert file.notes[-1] == note
    assert note.startswith("expressed in operators that TFLite has: ")
    with LiteRTRunner(tmp_path / "model.tflite", force_fp16=False) as runner:
        received = runner.run(batch)
    for name, (key, right) in zip(names, sorted(expected.items()), strict=True):
        assert received[key].dtype == right.dtype, name
        np.testing.assert_allclose(received[key], right, atol=5e-6, rtol=1e-5, err_msg=name)


def test_softplus_does_not_end_at_11_and_float64_parts_fit(
    export: Callable, tmp_path: Path
) -> None:
    decades = model(lambda x: keras.ops.cast(keras.ops.softplus(x) / np.log(10.0), "float32"), 5)
    file = export(open_source(decades), tmp_path / "model.tflite")
    assert any(note.startswith("float64 parts") for note in file.notes)
    x = np.float32([[-3, 0, 5, 20, 400]])
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        received = runner.run({"x": x})["y"]
    np.testing.assert_allclose(received, np.logaddexp(0, x) / np.log(10), rtol=2e-3)


def test_what_tflite_cannot_read_is_refused_with_the_model_behind_it(
    export: Callable, tmp_path: Path
) -> None:
    x = keras.Input((3,), dtype="string")
    source = open_source(keras.Model(x, layers.Embedding(9, 2, name="table")(layers.Hashing(9)(x))))
    cut = r"keras\.Model\(model\.get_layer\('table'\)\.input, model\.outputs\)"
    with pytest.raises(ConversionError, match=rf"looks values up in a table or .*{cut}"):
        export(source, tmp_path / "model.tflite")


def test_integers_are_looked_up_by_halving(export: Callable, tmp_path: Path) -> None:
    x = keras.Input((4,), dtype="int64", name="x")
    lookup = layers.IntegerLookup(vocabulary=[30, 5, 12], name="y")
    file = export(open_source(keras.Model(x, lookup(x))), tmp_path / "model.tflite")
    ids = np.array([[5, 12, 30, 7], [30, 0, -1, 5]])
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        np.testing.assert_array_equal(runner.run({"x": ids})["y"], lookup(ids))


def test_sums_beside_numbers_and_small_divisors_are_right_in_fp16(
    tmp_path: Path, export: Callable
) -> None:
    """XNNPACK gives 0 for a sum times a number where it computes in FP16."""
    x = keras.Input((300, 300), name="x")
    rows, all_ = keras.ops.sum(x, axis=1), keras.ops.sum(x, axis=(1, 2), keepdims=True)
    outputs = {"product": 3.0 * rows, "count": all_ / 9e4, "far": all_ * 2.0, "inverse": 4.0 / rows}
    small = np.float32([1e-5, 0.5] * 150)  # whose inverse is past FP16
    outputs["small"] = keras.ops.square(0.03 * x[:, 0] + 0.03) / small
    outputs["logarithm"] = keras.ops.log1p(0.01 * x[:, 0] + 0.001)
    source = open_source(keras.Model(x, outputs))
    batch = {"x": np.random.default_rng(0).random((2, 300, 300)).astype(np.float32) / 4}
    expected = source.forward(batch)
    with LiteRTRunner(export(source, tmp_path / "m.tflite").path, force_fp16=True) as runner:
        for name, received in runner.run(batch).items():
            np.testing.assert_allclose(received, expected[name], rtol=2e-3, err_msg=name)
