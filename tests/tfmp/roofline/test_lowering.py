"""FLOPs and bytes of layers, forward and backward, against counts by hand."""

from dataclasses import dataclass

import keras
import pytest
from backends import only_on
from keras import layers, ops

from tfmp.roofline.lowering import forward_and_backward, without_cudnn, work_of
from tfmp.roofline.work import Work

JAX = keras.backend.backend() == "jax"


@dataclass
class ByHand:
    """Counts on paper; bytes follow the passes that `tfmp.roofline.counts` names.

    Attributes:
        products: FLOPs of products, forward; backward there are twice as many.
        other: FLOPs of everything else, forward.
        forward, backward: bytes.
        tolerance: of the bytes: small passes over biases, statistics and initial states.
    """

    products: int
    other: int
    forward: int
    backward: int
    tolerance: float = 0.02


def passes(layer: keras.layers.Layer, shape: tuple[int, ...]) -> tuple[Work, Work]:
    """The work of the forward pass, and of both."""
    x = ops.cast(ops.ones(shape), layer.compute_dtype)
    layer(x)

    def forward(sources):
        mapping = list(zip(layer.trainable_variables, sources[:-1], strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return [layer(sources[-1])]

    sources = [*(variable.value for variable in layer.trainable_variables), x]
    with without_cudnn(layer):
        both, arguments = forward_and_backward(forward, sources)
        return work_of(forward, (sources,)), work_of(both, arguments, first_results=1)


def product(size: int, x: int, weights: int, y: int) -> tuple[int, int]:
    """Bytes of a product with weights and a bias, forward and backward, from numbers of elements.

    Args:
        size: bytes of a number; float32 weights are cast if it is 2.
        x, weights, y: numbers of elements.
    """
    cast = 0 if size == 4 else weights * (4 + size)
    one = size * (x + weights + y)
    bias = size * 2 * y
    sums = size * y
    return cast + one + bias, 2 * one + sums + cast


def dense(size: int) -> ByHand:
    batch, units, features = 32, 128, 64
    bytes_ = product(size, batch * features, features * units, batch * units)
    return ByHand(2 * batch * features * units, batch * units, *bytes_)


def convolution(size: int) -> ByHand:
    # "same": along each axis 12 pixels meet the middle weight, 11 each of the others.
    batch, channels, filters, places = 4, 8, 16, (12 + 11 + 11) ** 2
    pixels = batch * 12 * 12
    bytes_ = product(size, pixels * channels, 9 * channels * filters, pixels * filters)
    return ByHand(2 * batch * places * channels * filters, pixels * filters, *bytes_)


def depthwise(size: int) -> ByHand:
    batch, channels = 4, 8
    before, after = batch * 12 * 12 * channels, batch * 10 * 10 * channels
    bytes_ = product(size, before, 9 * channels, after)
    return ByHand(2 * 9 * after, after, *bytes_)


def normalization(size: int) -> ByHand:
    elements = 32 * 64
    # Mean, variance, result; backward two sums each over features and over samples, and dx.
    forward, backward = (1 + 1 + 2) * elements, (2 + 1 + 2 + 1 + 3) * elements
    if JAX:  # the variance's gradient goes back through its own mean
        backward += 2 * elements
    return ByHand(0, 9 * elements, size * forward, size * backward, tolerance=0.13)


CASES = {
    "dense": (dense, lambda d: layers.Dense(128, dtype=d), (32, 64)),
    "convolution": (
        convolution,
        lambda d: layers.Conv2D(16, 3, padding="same", dtype=d),
        (4, 12, 12, 8),
    ),
    "depthwise": (depthwise, lambda d: layers.DepthwiseConv2D(3, dtype=d), (4, 12, 12, 8)),
    "normalization": (normalization, lambda d: layers.LayerNormalization(dtype=d), (32, 64)),
}


@only_on("tensorflow", "jax", reason="PyTorch has no program of XLA")
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
@pytest.mark.parametrize("name", CASES)
def test_a_layer_counted_by_hand(name, dtype):
    by_hand, build, shape = CASES[name]
    layer = build(dtype)
    hand = by_hand(4 if dtype == "float32" else 2)
    forward, both = passes(layer, shape)
    assert forward.uncounted == both.uncounted == ()
    assert sum(forward.products.values()) == hand.products
    assert sum(both.products.values()) == 3 * hand.products
    assert set(forward.products) <= {layer.compute_dtype}
    assert forward.other == pytest.approx(hand.other, rel=0.1)
    assert forward.bytes == pytest.approx(hand.forward, rel=hand.tolerance)
    assert both.bytes - forward.bytes == pytest.approx(hand.backward, rel=hand.tolerance)


def test_recurrent_layers_are_as_before_when_they_have_been_counted():
    layer = layers.LSTM(2, use_cudnn="auto")
    with without_cudnn(layer):
        assert layer.use_cudnn is False
    assert layer.use_cudnn == "auto"
