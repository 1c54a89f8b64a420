"""The optimizers that a model holds: whether one of them skipped a step."""

import keras
import numpy as np
import pytest
from keras import ops

from tfmp import LossScaleOptimizer
from tfmp.loss_scaling.optimizers_of import watch_skips


def optimizer(*, built: bool) -> tuple[LossScaleOptimizer, keras.Variable]:
    weight = keras.Variable([1.0])
    made = LossScaleOptimizer(keras.optimizers.SGD(0.1), loss_scale=1.0)
    if built:
        made.build([weight])
    return made, weight


def step(made: LossScaleOptimizer, weight: keras.Variable, gradient: float) -> None:
    made.apply([ops.convert_to_tensor([gradient])], [weight])


@pytest.mark.parametrize(
    ("built", "gradient", "expected"),
    [(True, np.inf, True), (False, 1.0, False), (False, np.inf, True)],
)
def test_a_step_that_an_optimizer_skips_is_told(built, gradient, expected):
    (first, weight), (second, other) = optimizer(built=built), optimizer(built=True)
    is_skipped = watch_skips([first, second])
    step(first, weight, gradient)
    step(second, other, 1.0)
    assert bool(is_skipped()) is expected


def test_a_step_without_an_optimizer_that_skipped_an_earlier_one_is_not_skipped():
    (first, weight), (second, other) = optimizer(built=True), optimizer(built=True)
    step(first, weight, np.inf)
    is_skipped = watch_skips([first, second, optimizer(built=False)[0]])
    step(second, other, 1.0)
    assert not is_skipped()
