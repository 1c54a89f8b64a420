"""Recurrent layers in SavedModels of Keras 2 become files, with any and with a fixed batch."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras import layers

from tfmp.converters import convert, open_source, validate
from tfmp.converters.shared.errors import ConversionError

LAYERS = {
    "bidirectional": lambda: layers.Bidirectional(layers.LSTM(3)),
    "images": lambda: layers.ConvLSTM2D(3, 3),
    "steps": lambda: layers.TimeDistributed(layers.Bidirectional(layers.LSTM(3))),
}
SHAPES = {"images": (4, 6, 6, 2), "steps": (2, 4, 6)}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_a_recurrent_layer_becomes_a_tflite_file(name: str, tmp_path: Path):
    """Keras 2 wrote lists for any batch, and marks for an operator that LiteRT cannot run."""
    model = tf_keras.Sequential([layers.Input(SHAPES.get(name, (4, 6))), LAYERS[name]()])
    tf.saved_model.save(model, str(tmp_path / "saved"))
    x = np.random.default_rng(0).standard_normal((6, *model.input_shape[1:])).astype(np.float32)
    file = convert(tmp_path / "saved", "tflite", tmp_path / "out.tflite")
    report = validate(tmp_path / "saved", file, {model.input_names[0]: x})
    (output,) = report.candidates[0].outputs
    assert output.samples == 6
    assert output.rel_l2 < 2e-3
    (received,) = open_source(tmp_path / "saved").forward({model.input_names[0]: x}).values()
    np.testing.assert_allclose(received, model.predict(x, verbose=0), rtol=1e-4, atol=1e-5)


class Looped(tf.Module):
    """A function of a module with weights, called with rows of three values."""

    def __init__(self, body) -> None:
        super().__init__()
        generator = np.random.default_rng(0)
        self.kernel = tf.Variable(generator.standard_normal((3, 3), dtype=np.float32) / 2)
        self.serve = tf.function(
            lambda rows: {"out": body(self.kernel, rows)},
            input_signature=[tf.TensorSpec((None, 3), name="rows")],
        )


def looped(step, rows):
    return tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, step(i, h)), (0, rows))[1]


def called_twice(kernel, rows):
    @tf.function
    def layer(rows):
        return looped(lambda i, h: tf.tanh(h @ kernel), rows)

    return layer(rows) + layer(2 * rows)


def gathers(kernel, rows):
    return looped(lambda i, h: h + tf.gather(kernel, i), rows)


def row_by_row(kernel, rows):
    return tf.map_fn(lambda row: tf.nn.softmax(tf.linalg.matvec(kernel, row)), rows)


def twice_the_rows(kernel, rows):
    """The state of the loop has two rows of each sample, as in a beam search."""
    doubled = tf.repeat(rows, 2, axis=0)
    return tf.reshape(looped(lambda i, h: tf.tanh(h @ kernel), doubled), (-1, 2, 3))


ROWS = np.random.default_rng(1).standard_normal((4, 3), dtype=np.float32)


@pytest.mark.parametrize("body", [called_twice, gathers, row_by_row, twice_the_rows])
@pytest.mark.parametrize("to", ["onnx", pytest.param("tflite", marks=pytest.mark.slow)])
def test_a_loop_that_reads_weights_becomes_a_file(body, to: str, tmp_path: Path):
    module = Looped(body)
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.serve)
    file = convert(tmp_path / "saved", to, tmp_path / f"out.{to}", precision="fp32")
    report = validate(tmp_path / "saved", file, {"rows": ROWS})
    assert report.candidates[0].outputs[0].rel_l2 < 1e-5
    received = open_source(tmp_path / "saved").forward({"rows": ROWS})["out"]
    np.testing.assert_allclose(received, module.serve(ROWS)["out"], rtol=1e-5, atol=1e-6)


class Doubled(tf.Module):
    """A list whose elements have twice as many rows as there are samples."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.eye(3))

    @tf.function(input_signature=[tf.TensorSpec((None, 3))])
    def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        rows, kept = tf.repeat(x, 2, axis=0), tf.TensorArray(tf.float32, 3)
        for step in tf.range(3):
            rows = tf.tanh(rows @ self.kernel)
            kept = kept.write(step, rows)
        return {"y": kept.stack()}


@pytest.mark.slow
def test_a_file_that_cannot_run_is_refused_and_not_written(tmp_path: Path):
    module = Doubled()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.serve)
    with pytest.raises(ConversionError, match="TensorListReserve"):
        convert(tmp_path / "saved", "tflite", tmp_path / "out.tflite")
    assert not (tmp_path / "out.tflite").exists()
