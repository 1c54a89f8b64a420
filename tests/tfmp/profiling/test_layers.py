"""Layers are counted as the model calls them: with their masks, and without work of our own."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from keras import layers, ops

from tfmp.profiling.layers import _counted, _Like, _TimedCall

ELEMENTS = 4 * 6 * 8
SEEN = np.array([[True] * 3 + [False] * 3] * 4)


def counted(layer: keras.layers.Layer, mask=None):
    layer.build((4, 6, 8))
    like = _Like((4, 6, 8), "float32", mask)
    return _counted(_TimedCall(SimpleNamespace(layer=layer), (like,), {}))


@pytest.mark.parametrize("mask", [None, SEEN])
def test_an_activation_counts_its_own_operation_and_no_other(mask):
    work = counted(layers.ReLU(), None if mask is None else ops.convert_to_tensor(mask))
    assert work.other == ELEMENTS
    assert work.bytes == 4 * (2 + 3) * ELEMENTS  # x, y; x or y, both gradients


def test_a_product_reads_its_input_once():
    work = counted(layers.Dense(3, use_bias=False))
    assert work.products == {"float32": 3 * 2 * ELEMENTS * 3}
    assert work.other == 0
    assert work.bytes == 3 * 4 * (ELEMENTS + 8 * 3 + 4 * 6 * 3)
    seen = []

    class Pooling(layers.GlobalAveragePooling1D):
        def call(self, inputs, mask=None):
            seen.append(mask is not None)
            return super().call(inputs, mask)

    counted(Pooling(), ops.convert_to_tensor(SEEN))
    assert all(seen)
