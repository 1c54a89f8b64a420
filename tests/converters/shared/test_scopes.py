"""Layers of any name: TensorFlow would refuse some of them as scopes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfmp.converters import convert, open_source, validate
from tfmp.converters.shared.scopes import scope_names

NAMES = ("my layer", "couche cachée", "(a) b")


@pytest.fixture
def model() -> keras.Model:
    first, second, third = NAMES
    inner = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(3, activation="relu", name=third)], name="the inner"
    )
    x = keras.Input((4,), name="my input")
    hidden = inner(keras.layers.Dense(3, name=first)(x))
    return keras.Model(x, keras.layers.Dense(2, name=second)(hidden), name="a model")


def test_they_are_traced_and_keep_their_names(model):
    source = open_source(model)
    assert {*NAMES} <= {*source.layers.values()}
    assert [spec.name for spec in source.outputs] == ["couche cachée"]
    assert [layer.name for layer in model.layers] == ["my input", NAMES[0], "the inner", NAMES[1]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnx", "tflite"])
def test_they_are_converted(model, name, tmp_path):
    path = convert(model, name, output=tmp_path / f"m.{name}").path
    x = np.random.default_rng(0).standard_normal((80, 4)).astype("float32")
    assert validate(model, [path], {"my input": x}).verdict.value == "PASS"
    assert model.weights[0].value.name == "my layer/kernel:0"


def test_one_of_keras_2_whose_loop_tensorflow_would_refuse():
    model = tf_keras.Sequential([tf_keras.Input((3, 2)), tf_keras.layers.LSTM(2)], name="a>")
    tf.import_graph_def(open_source(model).graph.graph.as_graph_def(), name="")


def test_each_gets_a_name_of_its_own_for_a_while():
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    named = [Named(name) for name in ("a b", "a_b", "a:b", "", "dense/kernel", "a>")]
    with scope_names(named, "name"):
        assert [each.name for each in named[1::3]] == ["a_b", "dense/kernel"]
        assert len({each.name for each in named}) == 6
        assert not any({*" :>"} & {*each.name} for each in named)
    assert [each.name for each in named] == ["a b", "a_b", "a:b", "", "dense/kernel", "a>"]
