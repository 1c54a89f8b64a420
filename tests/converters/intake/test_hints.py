"""A model's own hints at the meaning of its outputs, however it is opened."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
import tf_keras
from onnx_graphs import parse

from tfmp.converters.intake import OutputHint, open_source

layers = keras.layers


def own_error(truth: Any, predicted: Any) -> Any:
    return keras.ops.mean((truth - predicted) ** 4)


def dense(*names: str, activation: str | None = None) -> keras.Model:
    inputs = keras.Input((4,))
    outputs = [layers.Dense(3, activation, name=name)(inputs) for name in names]
    return keras.Model(inputs, outputs[0] if len(names) == 1 else outputs)


class TestLoss:
    @pytest.mark.parametrize(
        ("loss", "name"),
        [
            ("mse", "mse"),
            ("MeanAbsoluteError", "mean_absolute_error"),
            (keras.losses.KLDivergence(), "kl_divergence"),
            (keras.losses.poisson, "poisson"),
            (keras.losses.CosineSimilarity(name="mine"), "cosine_similarity"),
            (own_error, "own_error"),
        ],
    )
    def test_of_one_output(self, loss: Any, name: str, tmp_path: Path) -> None:
        model: Any = dense("y")
        model.compile(loss=loss)
        model.save(tmp_path / "model.keras")
        for opened in (model, tmp_path / "model.keras"):
            assert open_source(opened).hints == {"y": OutputHint(name)}

    @pytest.mark.parametrize(
        "loss",
        [
            {"b": "mae", "a": keras.losses.BinaryCrossentropy(from_logits=True)},
            [keras.losses.BinaryCrossentropy(from_logits=True), "mae"],
        ],
    )
    def test_of_several_outputs(self, loss: Any, tmp_path: Path) -> None:
        model = dense("a", "b")
        model.compile(loss=loss)
        model.save(tmp_path / "model.keras")
        for opened in (model, tmp_path / "model.keras"):
            hints = open_source(opened).hints
            assert hints == {"a": OutputHint("binary_crossentropy"), "b": OutputHint("mae")}

    def test_of_outputs_in_a_dict(self) -> None:
        inputs = keras.Input((4,))
        head = layers.Dense(3, "softmax", name="named_otherwise")(inputs)
        model = keras.Model(inputs, {"classes": head, "box": layers.Dense(4)(inputs)})
        model.compile(loss={"box": "huber", "classes": "categorical_crossentropy"})
        assert open_source(model, batch_size=1).hints == {
            "classes": OutputHint("categorical_crossentropy", "softmax", -1),
            "box": OutputHint("huber"),
        }

    @pytest.mark.parametrize("loss", [None, lambda truth, predicted: 0.0, {"other": "mse"}])
    def test_that_says_nothing(self, loss: Any) -> None:
        model = dense("y")
        model.loss = loss
        assert open_source(model).hints == {}

    @pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5")
    def test_in_a_file_of_keras_2_by_another_name(self, tmp_path: Path) -> None:
        model = tf_keras.Sequential([tf_keras.layers.Dense(3, input_shape=(4,), name="y")])
        model.compile(loss=tf_keras.losses.BinaryCrossentropy(from_logits=True))
        expected = {"y": OutputHint("binary_crossentropy")}
        assert open_source(model).hints == expected
        model.save(tmp_path / "model.h5")
        (tmp_path / "model.h5").rename(tmp_path / "model.keras")
        assert open_source(tmp_path / "model.keras").hints == expected


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, inputs: Any) -> Any:
        return keras.ops.sigmoid(self.dense(inputs))


def nested() -> keras.Model:
    return keras.Sequential(
        [keras.Input((4,)), dense("inner", activation="softmax"), layers.Reshape((3, 1))]
    )


def headed(head: Callable[[Any], Any]) -> keras.Model:
    inputs = keras.Input((2, 3))
    return keras.Model(inputs, head(inputs))


class TestActivation:
    @pytest.mark.parametrize(
        ("head", "activation"),
        [
            (layers.Dense(3, "softmax"), "softmax"),
            (layers.Softmax(axis=1), "softmax"),
            (layers.Dense(1, "sigmoid", dtype="mixed_float16"), "sigmoid"),
            (lambda x: layers.Flatten()(layers.Permute((2, 1))(layers.Softmax()(x))), "softmax"),
            (lambda x: keras.ops.cast(keras.ops.argmax(x, axis=-1), "float32"), "argmax"),
        ],
    )
    def test_of_keras(self, head: Any, activation: str) -> None:
        (hint,) = open_source(headed(head)).hints.values()
        assert hint.activation == activation

    @pytest.mark.parametrize(
        "head",
        [
            layers.Dense(3),
            lambda x: layers.Softmax()(x) * x,
            lambda x: layers.Softmax()(x)[:, :, 1:],
            layers.LayerNormalization(),
        ],
    )
    def test_there_is_none(self, head: Any) -> None:
        assert open_source(headed(head)).hints == {}

    def test_of_models_in_models_and_of_subclassed_ones(self) -> None:
        model = Subclassed()
        model(np.zeros((1, 4), np.float32))
        assert [hint.activation for hint in open_source(model).hints.values()] == ["sigmoid"]
        assert [hint.activation for hint in open_source(nested()).hints.values()] == ["softmax"]

    def test_of_a_function_that_calls_functions(self) -> None:
        @tf.function
        def reshaped(x: tf.Tensor, other: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.reshape(other, [-1]), tf.reshape(x, [-1])

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
        def model(x: tf.Tensor) -> dict[str, tf.Tensor]:
            first, second = reshaped(tf.nn.softmax(x), tf.nn.sigmoid(x))
            return {"sigmoid": first, "softmax": second}

        module = tf.Module()
        module.model = model
        hints = open_source(model.get_concrete_function()).hints
        assert all(hint.activation == name for name, hint in hints.items())
        assert len(hints) == 2


TURNED = "Transpose <perm = [0, 2, 3, 1]>"


@pytest.mark.parametrize(
    ("given", "body", "shape", "activation", "axis"),
    [
        ("2, 3", "y = Identity(Transpose(Softmax(x)))", "3, 2", "softmax", -2),
        ("2, 3", "y = LogSoftmax(x)", "2, 3", "log_softmax", -1),
        ("2, 3", "y = HardSigmoid(x)", "2, 3", "hard_sigmoid", None),
        # Scores of classes on axis 1 of [N, 5, 1, 1] are no labels of one class.
        ("N, 5, 1, 1", "y = Softmax <axis = 1> (x)", "N, 5, 1, 1", "softmax", -3),
        ("N, 5, 1, 1", f"y = {TURNED} (Softmax <axis = 1> (x))", "N, 1, 1, 5", "softmax", -1),
        ("N, 5, 1, 1", "y = Flatten(Softmax <axis = 1> (x))", "N, 5", "softmax", None),
    ],
)
def test_the_last_operator_of_an_onnx_file(
    given: str, body: str, shape: str, activation: str, axis: int | None, tmp_path: Path
) -> None:
    text = f"agraph (float[{given}] x) => (float[{shape}] y) {{ {body} }}"
    onnx.save(parse(text), tmp_path / "model.onnx")
    hint = OutputHint(activation=activation, axis=axis)
    assert open_source(tmp_path / "model.onnx").hints == {"y": hint}
