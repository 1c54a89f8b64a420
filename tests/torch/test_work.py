"""The work of functions on PyTorch, operation by operation, against counts by hand."""

import keras
import numpy as np
import pytest
import torch
from keras import layers, ops

from tfmp.roofline import Work, forward_and_backward, work_of
from tfmp.shared.backend import current_backend

SAMPLES, FEATURES, UNITS = 32, 64, 128


def test_a_dense_layer_reads_each_operand_once_and_writes_each_result():
    layer = layers.Dense(UNITS)
    x = ops.ones((SAMPLES, FEATURES))
    layer.build(x.shape)
    kernel, bias = (variable.value for variable in layer.trainable_variables)

    def forward(sources):
        kernel, bias, x = sources
        return [torch.add(torch.matmul(x, kernel), bias)]

    once = work_of(forward, ([kernel, bias, x],))
    both = work_of(*forward_and_backward(forward, [kernel, bias, x]))
    y = SAMPLES * UNITS
    products = 2 * SAMPLES * FEATURES * UNITS
    product_bytes = 4 * (SAMPLES * FEATURES + FEATURES * UNITS + y)
    assert once == Work({"float32": products}, y, product_bytes + 4 * (2 * y + UNITS), passes=2)
    assert both.products == {"float32": 3 * products}
    assert both.other == 2 * y - UNITS  # the sum of the bias's gradient


def test_a_convolution_by_channels_costs_twice_as_much_on_the_way_back():
    layer = layers.DepthwiseConv2D(3)
    x = ops.ones((4, 12, 12, 8))
    layer.build(x.shape)

    def forward(sources):
        mapping = list(zip(layer.trainable_variables, sources[:-1], strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return [layer(sources[-1])]

    sources = [*(variable.value for variable in layer.trainable_variables), x]
    work = work_of(*forward_and_backward(forward, sources))
    assert work.products == {"float32": 3 * 2 * 9 * 4 * 10 * 10 * 8}


def test_a_step_is_counted_with_its_optimizer():
    model = keras.Sequential([layers.Input((FEATURES,)), layers.Dense(UNITS, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x, y = ops.ones((SAMPLES, FEATURES)), ops.ones((SAMPLES, UNITS))
    work = work_of(model.train_step, ((x, y),))
    assert work.products == {"float32": 2 * 2 * SAMPLES * FEATURES * UNITS}  # no gradient of x
    assert work.other > 2 * FEATURES * UNITS  # the update's product and difference


TABLE, ROWS = torch.ones(1000, 8), torch.tensor([1, 2, 3])


@pytest.mark.parametrize(
    ("function", "cost"),
    [
        (lambda x: x.reshape(8, 4).t()[1:], None),
        (lambda x: torch.empty_like(x), None),
        (lambda x: x.add_(1.0), ("add_", 32, 2 * 128)),
        (lambda x: x.zero_(), ("zero_", 0, 128)),
        (lambda x: x.half(), ("_to_copy", 0, 128 + 64)),
        (lambda x: torch._foreach_mul_([x[:2], x[2:]], 2.0), ("_foreach_mul_", 32, 2 * 128)),
        (lambda x: x.sum(), ("sum", 31, 128 + 4)),
        (lambda x: x[:1].expand(100, 8).clone(), ("clone", 0, 32 + 3200)),
        (lambda x: torch.nn.functional.embedding(ROWS, TABLE), ("embedding", 0, 2 * 96 + 24)),
        (lambda x: x > 0, ("gt", 0, 128 + 32)),
        (lambda x: x.softmax(-1), ("_softmax", None, 2 * 128)),
    ],
)
def test_what_one_operation_costs(function, cost):
    found = current_backend().costs(function, (torch.ones(4, 8),))
    assert [(one.name, one.other, one.bytes) for one in found] == [cost] * (cost is not None)


def test_work_that_is_not_counted_has_a_name():
    work = work_of(lambda x: ops.softmax(x), (ops.ones((2, 3)),))
    assert work.uncounted == ("_softmax",)
    assert np.isfinite(work.bytes)
