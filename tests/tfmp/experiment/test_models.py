"""Models of tasks: those that an experiment cannot use, and what makes it begin anew."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from own_layer import OwnModel

from tfmp.experiment.models import build, build_float32, fingerprint
from tfmp.experiment.tasks import Task

X, Y = np.zeros((4, 2), "float32"), np.zeros(4, "float32")


def dense(dtype: str | None = None, compiled: bool = True) -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, dtype=dtype, name="y")])
    if compiled:
        model.compile("sgd", "mse")
    return model


SAME = dense()


def own() -> keras.Model:
    model = OwnModel(lambda own, x: own.dense(x), dense=1)
    model.compile("sgd", "mse")
    return model


def metric(predictions, labels):
    return 0.0


def task(function=dense, **values: object) -> Task:
    return Task("t", function, (X, Y), (X, Y), metric, 0.1, **values)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, "it returned NoneType"),
        (lambda: dense(compiled=False), r"Call model\.compile"),
        (lambda: dense("mixed_float16"), "it has layers in float16"),
        (lambda: dense("bfloat16"), "it has layers in float16 or bfloat16"),
        (lambda: SAME, "returned the same one twice"),
    ],
)
def test_models_that_cannot_be_used(function, message):
    with pytest.raises((TypeError, ValueError), match=message):
        build_float32(task(function))


def test_models_that_can_be_used():
    assert build_float32(task()).count_params() == 3
    assert build(task(own)).count_params() == 3


def test_a_changed_task_has_another_fingerprint(tmp_path):
    keras.utils.set_random_seed(0)
    first, model = task(), dense()
    known = fingerprint(first, model)
    assert fingerprint(task(), model) == known
    for changed in (
        replace(first, test=(X + 1, Y)),
        replace(first, test=(X.reshape(4, 1, 2), Y)),
        replace(first, train=({"a": X}, Y)),
        replace(first, outputs={"y": "regression"}),
        replace(first, metric=np.mean),
    ):
        assert fingerprint(changed, model) != known
