"""Outputs that only a loss of the user's own sees."""

import keras
import numpy as np
from keras import layers, ops
from own_layer import OwnModel

from tfmp import plan


def test_a_teachers_logits_stay_in_float32():
    """Only a `train_step` would run the teacher."""
    student, teacher = (
        keras.Sequential([layers.Input((8,)), layers.Dense(8), layers.Dense(2)]) for _ in range(2)
    )
    model = OwnModel(lambda own, x: own.student(x), student=student, teacher=teacher)
    model(np.ones((2, 8)))
    rows = list(plan(model, "mixed_float16").rows)
    dense = [row.policy for row in rows if row.layer_class == "Dense"]
    assert dense == ["mixed_float16", "float32"] * 2


class Passing(layers.Layer):
    """Compares logits with targets, and returns them as they are."""

    def call(self, logits, targets):
        self.add_loss(ops.mean(ops.square(logits - targets)))
        return logits


class Sparse(layers.Layer):
    """Adds to the loss on its way."""

    def call(self, x):
        self.add_loss(ops.mean(ops.abs(x)))
        return x


def test_the_logits_of_an_endpoint_layer_stay_in_float32():
    inputs, targets = keras.Input((6, 8)), keras.Input((6, 2))
    x = Sparse(name="sparse")(layers.Dense(8, name="hidden")(inputs))
    logits = layers.Dense(2, name="logits")(x)
    model = keras.Model([inputs, targets], Passing(name="end")(logits, targets))
    rows = {row.path: row for row in plan(model, "mixed_float16").rows}
    assert rows["logits"].policy == rows["end"].policy == "float32"
    assert rows["hidden"].policy == "mixed_float16"
