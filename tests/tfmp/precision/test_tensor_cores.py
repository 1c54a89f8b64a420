"""Which layers Tensor Cores can take: by kind, dtype and sizes."""

import keras
import pytest
from keras import layers

from tfmp.machine.devices import CPU, Device
from tfmp.precision import layer_tree
from tfmp.precision.tensor_cores import (
    has_tensor_cores,
    padded_sizes,
    sizes_of,
    tensor_core_path,
)


def node_of(layer, shape=(8,), dtype=None):
    """The layer, built, in its place in a model."""
    model = keras.Sequential([keras.Input(shape, dtype=dtype), layer])
    return next(node for node in layer_tree.walk(model).within() if node.layer is layer)


KINDS = [
    (layers.Dense(16), (8,), True),
    (layers.EinsumDense("ab,bc->ac", output_shape=8), (8,), True),
    (layers.Conv2D(8, 3), (9, 9, 8), True),
    (layers.SeparableConv2D(8, 3), (9, 9, 8), True),
    (layers.Conv2D(32, 3, groups=2), (9, 9, 16), True),
    (layers.Conv2D(16, 3, groups=8), (9, 9, 16), False),
    (layers.DepthwiseConv2D(3), (9, 9, 8), False),
    (layers.LSTM(8), (4, 8), True),
    (layers.Bidirectional(layers.GRU(8)), (4, 8), True),
    (layers.TimeDistributed(layers.Dense(8)), (4, 8), True),
    (layers.TimeDistributed(layers.ReLU()), (4, 8), False),
    (layers.BatchNormalization(), (8,), False),
    (layers.MaxPooling2D(), (8, 8, 8), False),
]


@pytest.mark.parametrize(
    ("layer", "shape", "eligible"), KINDS, ids=[type(kind[0]).__name__ for kind in KINDS]
)
def test_kinds(layer, shape, eligible):
    path = tensor_core_path(node_of(layer, shape), "float16")
    assert path.eligible is eligible
    assert bool(path.reason) is not eligible  # what fits has nothing to be said about


@pytest.mark.parametrize(
    ("dtype", "tf32", "eligible"),
    [
        ("float16", False, True),
        ("float32", True, True),
        ("float32", False, False),
        ("float64", True, False),
    ],
)
def test_dtypes(dtype, tf32, eligible):
    path = tensor_core_path(node_of(layers.Dense(8)), dtype, tf32)
    assert path.eligible is eligible
    assert eligible or path.reason == f"computes in {dtype}"


def test_odd_sizes_slow_them_down_and_are_named():
    path = tensor_core_path(node_of(layers.Dense(10), (12,)), "float16")
    assert path.eligible
    assert path.reason == "input features 12 (padded: 16), units 10 (padded: 16)"
    # Four numbers of TF32 are as many bytes as eight of 16 bits.
    path = tensor_core_path(node_of(layers.Dense(12), (12,)), "float32", tf32=True)
    assert (path.eligible, path.reason) == (True, "")


@pytest.mark.parametrize(
    ("layer", "shape", "sizes"),
    [
        (layers.Conv2D(5, 3), (9, 9, 3), "input channels 3 (padded: 8), filters 5 (padded: 8)"),
        (layers.Conv2DTranspose(8, 3), (9, 9, 3), "input channels 3 (padded: 8)"),
        (layers.LSTM(6), (4, 3), "input features 3 (padded: 8), units 6 (padded: 8)"),
        (layers.Bidirectional(layers.LSTM(6)), (4, 8), "units 6 (padded: 8)"),
    ],
)
def test_sizes(layer, shape, sizes):
    assert ", ".join(padded_sizes(sizes_of(node_of(layer, shape)))) == sizes


def test_attention_has_the_sizes_of_its_heads():
    x = keras.Input((4, 16))
    layer = layers.MultiHeadAttention(2, key_dim=6)
    model = keras.Model(x, layer(x, x))
    node = next(node for node in layer_tree.walk(model).within() if node.layer is layer)
    assert sizes_of(node)["key_dim"] == 6


@pytest.mark.parametrize(
    ("device", "answer"),
    [
        (CPU, False),
        (Device("gpu", "Tesla T4", (7, 5)), True),
        (Device("tpu", "TPU v4"), True),
    ],
)
def test_devices_that_have_them(device, answer):
    assert has_tensor_cores(device) is answer
