"""Recurrent layers in SavedModels of Keras 2 become files, with any and with a fixed batch."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras import layers

from tfmp.converters import convert, open_source, validate

LAYERS = {
    "lstm": lambda: layers.LSTM(5),
    "gru": lambda: layers.GRU(5, return_sequences=True),
    "bidirectional": lambda: layers.Bidirectional(layers.LSTM(3)),
    "rnn": lambda: layers.SimpleRNN(4, go_backwards=True),
    "images": lambda: layers.ConvLSTM2D(3, 3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_recurrent_layer_becomes_a_tflite_file(name: str, tmp_path: Path):
    """Keras 2 wrote lists for any batch, and marks for an operator that LiteRT cannot run."""
    model = tf_keras.Sequential(
        [layers.Input((4, 6, 6, 2) if name == "images" else (4, 6)), LAYERS[name]()]
    )
    tf.saved_model.save(model, str(tmp_path / "saved"))
    x = np.random.default_rng(0).standard_normal((6, *model.input_shape[1:])).astype(np.float32)
    file = convert(tmp_path / "saved", "tflite", tmp_path / "out.tflite")
    report = validate(tmp_path / "saved", file, {model.input_names[0]: x})
    (output,) = report.candidates[0].outputs
    assert output.samples == 6
    assert output.rel_l2 < 2e-3
    (received,) = open_source(tmp_path / "saved").forward({model.input_names[0]: x}).values()
    np.testing.assert_allclose(received, model.predict(x, verbose=0), rtol=1e-4, atol=1e-5)
