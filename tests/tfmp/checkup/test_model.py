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


def test_channels_batch_and_vocabulary_are_sizes_too():
    parts = layers.Conv2D(8, 3, name="conv"), layers.Conv2D(8, 3)
    (finding,) = found(sequential(*parts, shape=(9, 9, 3), batch_size=6), "sizes")
    assert finding.message.endswith("conv input channels 3 (padded: 8), batch 6 (padded: 8)")
    words = layers.Embedding(1001, 12, name="words")
    model = sequential(words, layers.Flatten(), layers.Dense(8), shape=(4,))
    (finding,) = found(model, "sizes")
    assert "words vocabulary 1001 (padded: 1008), words features 12 (padded: 16)" in finding.message
