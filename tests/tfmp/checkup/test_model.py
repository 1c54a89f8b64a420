"""doctor's checks of a model, each seen both ways."""

import keras
import numpy as np
from backends import only_on
from keras import layers

from tfmp.checkup.model import check_model
from tfmp.precision.policy import plan


def found(model, check):
    return [diagnosis for diagnosis in check_model(model) if diagnosis.check == check]


def sequential(*parts, shape=(16,), compiled=True, **options):
    model = keras.Sequential([layers.Input(shape, **options), *parts])
    if compiled:
        model.compile("sgd", "mse")
    return model


def test_the_plan_comes_first_and_compiling_is_asked_for():
    model = sequential(layers.Dense(8), layers.Dense(2), compiled=False)
    first, *_, last = check_model(model)
    assert first.message == (
        "3 layers, 1 of them float32 under mixed_float16; policy='auto' takes float32 here"
    )
    assert (last.status, last.message) == ("note", "the model is not compiled")


def test_weights_that_are_no_float32_masters():
    (bad,) = found(sequential(layers.Dense(8, dtype="float16", name="half")), "model")[1:]
    assert bad.status == "problem"
    assert bad.message.startswith("The weights of half are float16: ")


def test_softmax_in_float32():
    inner = layers.Dense(8, activation="softmax", name="gate")
    (bad,) = found(sequential(inner, layers.Dense(8)), "softmax")
    assert bad.status == "warning"
    assert bad.message == "softmax would be computed in 16 bits in gate"
    model = sequential(layers.Softmax(name="soft"), layers.Dense(8, activation="softmax", name="p"))
    (good,) = found(model, "softmax")
    assert (good.status, good.message) == ("ok", "in float32: soft, p")
    assert found(sequential(layers.Dense(8)), "softmax") == []


@only_on("tensorflow", reason="softmax computes in float32 elsewhere")
def test_softmax_inside_attention():
    inputs = keras.Input((4, 16))
    attended = layers.MultiHeadAttention(2, 8, name="mha")(inputs, inputs)
    model = keras.Model(inputs, layers.Dense(8)(attended))
    (note,) = found(model, "softmax")
    assert note.status == "note"
    assert note.message == "the softmax inside mha is computed in 16 bits, like its layer"
    # What it says is so: under this policy the layer's scores are float16.
    assert plan(model, "mixed_float16").apply() is not None
    mha = model.get_layer("mha")
    assert mha._softmax(np.ones((1, 2, 4, 4), "float16")).dtype == "float16"
