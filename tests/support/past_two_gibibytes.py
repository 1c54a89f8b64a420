"""Converts models of little more than 2 GiB, as a script: TensorFlow keeps memory until its end.

Run: python past_two_gibibytes.py FOLDER (needs 10 GB of disk and of memory)
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfmp.converters import convert, open_source
from tfmp.converters.intake import Source
from tfmp.converters.runners import OnnxRunner
from tfmp.converters.shared.tensors import synthetic_batch

SHAPE = (1_060_000, 512)
DATA_BYTES = 2**31


def table() -> np.ndarray:
    """Few random numbers, many times: drawing them all takes a while and three times the memory."""
    return np.resize(np.random.default_rng(0).standard_normal(99991, np.float32), SHAPE)


def assert_runs_like(source: Source, path: Path) -> None:
    """The file has the results of the model."""
    batch = synthetic_batch(source.inputs, samples=3, seed=2)
    for name, value in OnnxRunner(path).run(batch).items():
        np.testing.assert_allclose(value, source.forward(batch)[name], rtol=1e-4, atol=1e-5)


def keras_model(folder: Path) -> None:
    """A Keras model, in FP16."""
    ids = keras.Input((4,), dtype="int32", name="ids")
    rows = keras.layers.Embedding(*SHAPE, embeddings_initializer="zeros", name="table")(ids)
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D(name="mean")(rows), name="large")
    model.set_weights([table()])
    half = convert(model, output=folder / "half.onnx")
    assert DATA_BYTES / 2 < half.path.stat().st_size < 1.05 * DATA_BYTES / 2


def saved_model(folder: Path) -> None:
    """A SavedModel in FP32: TensorFlow's own freezing writes the weights into a protobuf."""

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.int32, name="ids")])
    def mean(ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"mean": tf.reduce_mean(tf.gather(module.table, ids), axis=1)}

    module = tf.Module()
    module.table = tf.Variable(table())
    tf.saved_model.save(module, folder / "saved", signatures={"mean": mean})
    del module.table
    source = open_source(folder / "saved")
    large = convert(source, output=folder / "saved.onnx", precision="fp32")
    (weights,) = folder.glob("saved.onnx.*.data")
    assert weights.stat().st_size > DATA_BYTES
    assert_runs_like(source, large.path)


if __name__ == "__main__":
    keras_model(Path(sys.argv[1]))
    keras.backend.clear_session()
    saved_model(Path(sys.argv[1]))
