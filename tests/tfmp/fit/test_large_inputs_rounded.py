"""Inputs whose differences 16 bits round off: the layers that read them go to float32."""

import keras
import numpy as np
import pytest
from keras import layers
from own_layer import OwnModel
from probed_fits import EAGER
from stacks import stack

from tfmp import MixedPrecision

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((64, 8)).astype("float32")
KELVIN = (288.15 + 0.1 * NORMAL).astype("float32")
Y = NORMAL[:, :1]


def train(model, x=KELVIN, policy="mixed_float16", epochs=1, keep=None):
    model.compile(keras.optimizers.Adam(1e-2), "mse", **EAGER)
    watch = MixedPrecision(policy, keep=keep)
    history = model.fit(x, Y, batch_size=32, epochs=epochs, verbose=0, callbacks=[watch])
    return watch.report, history.history["loss"]


def wide(model, report):
    """The layers that compute in float32, and not by the plan."""
    moved = "needed float32 in training"
    kept = {row.path for row in report.kept_float32 if row.reason != moved}
    own = [one for one in model.layers if not isinstance(one, layers.InputLayer)]
    return [one.name for one in own if one.compute_dtype == "float32" and one.name not in kept]


def messages(report):
    return [one.text for one in report.events if " apart. Moved to float32 before" in one.text]


def deep(*first, shape=(8,)) -> keras.Model:
    return stack(*first, layers.Dense(8, "relu", name="later"), 1, inputs=shape)


def normed() -> keras.Model:
    return deep(layers.BatchNormalization(name="first"))


def by_operations() -> keras.Model:
    inputs = keras.Input((8,))
    shifted = layers.Dense(8, name="later")(layers.BatchNormalization(name="first")(inputs + 12.0))
    return keras.Model(inputs, layers.Dense(1)(shifted))


def own() -> keras.Model:
    """A model whose inputs are cast to its own dtype before `call`."""
    first = layers.BatchNormalization(name="first")
    return OwnModel(
        lambda own, x: own.out(own.later(own.first(x[:, ::-1]))), first=first, later=8, out=1
    )


@pytest.mark.parametrize(
    ("make", "moved", "policy"),
    [
        (own, ["first"], "mixed_float16"),
        pytest.param(normed, ["first"], "mixed_bfloat16", marks=pytest.mark.slow),
        pytest.param(by_operations, ["first"], "mixed_float16", marks=pytest.mark.slow),
    ],
)
def test_the_layers_that_would_lose_differences_are_moved(make, moved, policy):
    model = make()
    report, _ = train(model, policy=policy)
    assert wide(model, report) == moved
    (message,) = messages(report)
    assert f"the numbers of {policy[6:]} are" in message
    listed, _, fix = message.partition("before the first step: ")[2].partition(". ")
    assert set(moved) <= set(listed.split(", "))
    assert fix.startswith("To keep 16 bits, subtract the mean from the data")


def test_it_learns_what_float32_learns():
    _, exact = train(normed(), policy="float32", epochs=8)
    keras.utils.set_random_seed(7)
    report, losses = train(normed(), epochs=8)
    assert losses == pytest.approx(exact, rel=0.02)
    (message,) = messages(report)
    assert message.startswith("Feature ")
    assert " of input x is around 288" in message
    assert "and varies by 0.1" in message or "and varies by 0.0" in message
    assert "the numbers of float16 are 0.25 apart. Moved to float32" in message


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda: deep(), NORMAL),
        (lambda: deep(layers.Normalization(mean=288.15, variance=0.01)), KELVIN),
        pytest.param(
            lambda: deep(layers.Embedding(9000, 4, name="table"), layers.Flatten()),
            RNG.integers(5000, 9000, (64, 8)).astype("float32"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["normal", "Normalization", "Embedding"],
)
def test_layers_that_lose_nothing_stay_in_16_bits(make, x):
    model = make()
    report, _ = train(model, x)
    assert model.get_layer("later").compute_dtype == "float16"
    assert not report.events


def test_a_rescaling_hands_the_loss_on():
    model = deep(layers.Rescaling(1 / 300), layers.BatchNormalization(name="first"))
    report, _ = train(model)
    assert wide(model, report) == ["first"]
    assert messages(report)[0].split(" is around ")[0].endswith("the input of first")
