"""Layers whose own code leaves 16 bits, and outputs that only a loss of the user's own sees."""

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops

from tfmp import PrecisionPlan, plan
from tfmp.fit.preflight import preflight_findings


class Product(layers.Layer):
    """Multiplies by a constant, and then by its weights."""

    def __init__(self, constant_dtype, **options):
        super().__init__(**options)
        self.constant_dtype = constant_dtype

    def build(self, shape):
        self.kernel = self.add_weight(shape=(8, 8), name="kernel")

    def call(self, x):
        x = ops.multiply(x, ops.ones((8,), dtype=self.constant_dtype or x.dtype))  # promotes
        return ops.matmul(x, self.kernel)


def model_of(*dtypes) -> keras.Model:
    parts = [Product(dtype, name=f"part{index}") for index, dtype in enumerate(dtypes)]
    model = keras.Sequential([layers.Input((8,)), *parts, layers.Dense(8, name="out")])
    model.compile("sgd", "mse")
    return model


def finding_about(model):
    found = preflight_findings(model, plan(model, "mixed_float16"))
    return next((one for one in found if one.check == "promoted to float32"), None)


def test_a_layer_that_fails_in_16_bits_promotes_nothing_in_the_model_around_it():
    class Fails(Product):
        def call(self, x):
            product = super().call(x)
            if x.dtype == "float16":
                raise TypeError("expects float32")
            return product

    model = keras.Sequential([layers.Input((8,)), layers.Dense(8), Fails("float32"), Product(None)])
    made = plan(model, "mixed_float16")
    assert made.rows[2].reason.startswith("failed a dry run in float16: expects float32")
    assert made.promoted == {}


def test_a_layer_that_a_constant_promotes_is_found_with_the_line():
    made = plan(model_of("float32", None), "mixed_float16")
    assert list(made.promoted) == ["part0"]
    with open(__file__, encoding="utf-8") as file:
        line = next(n for n, text in enumerate(file, 1) if text.rstrip().endswith("# promotes"))
    assert made.promoted["part0"] == f"{Path(__file__).name}:{line}"
    assert PrecisionPlan.from_dict(made.to_dict()).promoted == made.promoted


@pytest.mark.parametrize(
    ("dtypes", "status", "begin"),
    [
        (["float32", "float32", None], "warning", "1 of 3 layers"),
        (["float32", None, None], "note", "2 of 3 layers"),
    ],
)
def test_the_layers_that_stay_in_16_bits_are_counted(dtypes, status, begin):
    finding = finding_about(model_of(*dtypes))
    assert finding.status == status
    assert finding.message.startswith(begin)


def test_layers_that_multiply_in_16_bits_are_no_finding():
    assert finding_about(model_of(None, None)) is None


# --- outputs that only a loss sees ---


class Distiller(keras.Model):
    """Only its train_step runs the teacher."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = (
            keras.Sequential([layers.Input((8,)), layers.Dense(8), layers.Dense(2)])
            for _ in range(2)
        )

    def call(self, x):
        return self.student(x)


def test_a_teachers_logits_stay_in_float32():
    model = Distiller()
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
