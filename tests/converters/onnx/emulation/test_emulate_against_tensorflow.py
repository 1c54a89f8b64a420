"""Whole models emulated, against TensorFlow's own float16 kernels on this CPU.

Both compute the model in FP16 from the same FP16 weights and inputs. They round in the same places
where tensors are written, and differ inside kernels: TensorFlow rounds exp, sum and quotient of a
softmax and every gate of a recurrent layer, where a GPU kernel rounds what it writes; and it
normalizes in float32 what an ONNX graph may say in several FP16 nodes. So the two drifts agree
within a factor, and no single value has to. Weights are FP16 numbers from the start: without
rounded arithmetic there is next to no drift (ratios of 2e-4 to 8e-4).
"""

from collections.abc import Callable, Iterator

import keras
import numpy as np
import pytest
from keras import layers

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
from tfmp.converters.runners import OnnxRunner

# Drift emulated over drift in TensorFlow. Seen on the plain models: from 0.59 (softmax, which
# TensorFlow rounds three times for our one: a factor of the square root of three) to 1.6 (a
# normalization that ONNX says in FP16 nodes and Keras computes in float32).
PLAIN = (0.5, 2.0)
# Seen: 0.45. TensorFlow's step of an LSTM writes a dozen FP16 tensors, a fused one its two states.
RECURRENT = (0.3, 1.0)


def conv() -> keras.Model:
    """Normalization by powers of two, so that folding it into weights rounds nothing."""
    x = h = keras.Input((16, 16, 3), name="x")
    for filters in (16, 32):
        h = layers.Conv2D(filters, 3, padding="same", use_bias=False)(h)
        h = layers.BatchNormalization(
            epsilon=2.0**-10,
            gamma_initializer=keras.initializers.Constant(0.5),
            moving_mean_initializer=keras.initializers.Constant(0.125),
            moving_variance_initializer=keras.initializers.Constant(0.25 - 2.0**-10),
        )(h)
        h = layers.MaxPooling2D()(layers.ReLU()(h))
    return keras.Model(x, layers.Dense(10, name="y")(layers.GlobalAveragePooling2D()(h)))


def lstm() -> keras.Model:
    x = keras.Input((12, 16), name="x")
    return keras.Model(x, layers.Dense(4, name="y")(layers.LSTM(32)(x)))


def attention() -> keras.Model:
    x = keras.Input((20, 32), name="x")
    return keras.Model(x, layers.Dense(8, name="y")(x + layers.MultiHeadAttention(4, 16)(x, x)))


def layer_norm() -> keras.Model:
    x = keras.Input((64,), name="x")
    h = layers.LayerNormalization(epsilon=1e-3)(layers.Dense(64)(x))
    return keras.Model(x, layers.Dense(8, name="y")(h))


def softmax_head() -> keras.Model:
    x = keras.Input((64,), name="x")
    h = layers.Dense(64, activation="relu")(x)
    return keras.Model(x, layers.Dense(100, activation="softmax", name="y")(h))


def overflow() -> keras.Model:
    """Squares past 65504, for some samples and features only."""
    x = keras.Input((64,), name="x")
    h = layers.Dense(32, use_bias=False)(x) * 200.0
    return keras.Model(x, layers.Identity(name="y")(h * h))


@pytest.fixture
def float16_policy() -> Iterator[None]:
    keras.config.set_dtype_policy("float16")
    yield
    keras.config.set_dtype_policy("float32")


def outputs(make: Callable[[], keras.Model]) -> dict[str, np.ndarray]:
    """What the model gives in float32, in TensorFlow's float16 and emulated, on the same samples.

    Called under the float16 policy.
    """
    keras.utils.set_random_seed(0)
    half = make()
    keras.config.set_dtype_policy("float32")
    full = make()
    full.set_weights([weight.astype(np.float32) for weight in half.get_weights()])
    x = np.random.default_rng(0).standard_normal((64, *full.inputs[0].shape[1:]))
    x = x.astype(np.float16)
    model, _ = to_fp16(export_onnx(open_source(full)))
    prepare(model)
    (received,) = OnnxRunner(emulated(model)).run({"x": x.astype(np.float32)}).values()
    return {
        "float32": np.asarray(full(x.astype(np.float32))),
        "tensorflow": np.asarray(half(x)).astype(np.float32),
        "emulated": received,
    }


def drift(found: dict[str, np.ndarray], name: str) -> float:
    error = (found[name] - found["float32"]).astype(np.float64)
    return float(np.linalg.norm(error) / np.linalg.norm(found["float32"]))


@pytest.mark.usefixtures("float16_policy")
@pytest.mark.parametrize(
    ("make", "bounds"),
    [
        (conv, PLAIN),
        (lstm, RECURRENT),
        (attention, PLAIN),
        (layer_norm, PLAIN),
        (softmax_head, PLAIN),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_drift_is_that_of_tensorflows_float16_kernels(
    make: Callable[[], keras.Model], bounds: tuple[float, float]
):
    found = outputs(make)
    assert np.isfinite(found["tensorflow"]).all()
    ratio = drift(found, "emulated") / drift(found, "tensorflow")
    assert bounds[0] < ratio < bounds[1]


@pytest.mark.usefixtures("float16_policy")
def test_what_overflows_is_what_overflows_in_tensorflow():
    """But for values within a rounding of the limit, of which there may be one."""
    found = outputs(overflow)
    assert np.isfinite(found["float32"]).all()
    lost = {name: ~np.isfinite(found[name]) for name in ("tensorflow", "emulated")}
    assert 0.05 < lost["tensorflow"].mean() < 0.95
    assert np.sum(lost["tensorflow"] != lost["emulated"]) <= 1
