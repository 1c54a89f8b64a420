"""Files that Keras 1.2 to 2.15 wrote compute what their writer computed."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tf_keras
from keras2_files import FILES
from keras2_writing import Recorded
from quick import quick

from tfmp.converters.intake import open_source
from tfmp.converters.shared.errors import InputError

# What Keras 2 itself warns of when it writes a file.
pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")


def written(recorded: Recorded, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """The file, samples, and the results of its writer."""
    import tensorflow as tf

    path = folder / f"model{recorded.suffix}"
    model = recorded.write(path)
    batch = recorded.batch(model)
    packed = tf.nest.pack_sequence_as(getattr(model, "_nested_inputs", batch), batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy scalars of Keras 2
        results = tf.nest.flatten(model(packed, training=False))
    return path, batch, [np.asarray(value, np.float32) for value in results]


# One file of each way to write them.
QUICK = (
    "keras-1.2-images keras-2.0-theano keras-2.2-cudnn keras-2.10-seq2seq "
    "keras-2.13-windows keras-2.15-operators"
).split()


@pytest.mark.parametrize("name", quick(FILES, *QUICK))
def test_a_file_is_read_as_its_writer_meant_it(name: str, tmp_path: Path):
    path, batch, expected = written(FILES[name], tmp_path)
    source = open_source(path)
    assert [len(spec.shape) for spec in source.inputs] == [array.ndim for array in batch]
    names = [spec.name for spec in source.inputs]
    received = source.forward(dict(zip(names, batch, strict=True)))
    # FP16 weights of a mixed layer would be 1e-3 apart.
    tolerance = 5e-3 if "mixed" in name else 1e-5
    for value, array in zip(received.values(), expected, strict=True):
        np.testing.assert_allclose(value, array, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "to"), [("keras-2.2-cudnn", "onnx"), ("keras-2.10-seq2seq", "tflite")]
)
def test_a_file_converts_to_what_its_writer_meant(name: str, to: str, tmp_path: Path):
    from tfmp.converters import convert
    from tfmp.converters.runners.onnx import onnx_runner

    path, batch, expected = written(FILES[name], tmp_path)
    inputs = open_source(path).inputs
    shapes = {spec.name: array.shape for spec, array in zip(inputs, batch, strict=True)}
    source = open_source(path, input_shapes=shapes)
    artifact = convert(source, to=to, output=tmp_path / f"converted.{to}", precision="fp32")
    feeds = {spec.name: array for spec, array in zip(source.inputs, batch, strict=True)}
    if to == "onnx":
        received = onnx_runner(artifact.path).run(feeds)
    else:
        from tfmp.converters.runners.litert import LiteRTRunner

        with LiteRTRunner(artifact.path, force_fp16=False) as runner:
            received = runner.run(feeds)
    for spec, array in zip(source.outputs, expected, strict=True):
        np.testing.assert_allclose(received[spec.name], array, rtol=1e-3, atol=1e-3)


class _Subclassed(tf_keras.Model):
    def call(self, x: Any) -> Any:
        return x + 1.0


def test_a_subclassed_model_takes_what_it_was_called_with() -> None:
    model = _Subclassed()
    x = np.ones((2, 3), np.float32)
    model(x)
    source = open_source(model)
    assert [str(spec) for spec in source.inputs] == ["input_1: float32[?, 3]"]
    np.testing.assert_array_equal(source.forward({"input_1": x})["output_1"], x + 1)


def _in_float16() -> Any:
    policy = tf_keras.mixed_precision.Policy("mixed_float16")
    return tf_keras.Sequential([tf_keras.layers.Dense(2, dtype=policy, input_shape=(3,))])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_Subclassed, r"does not tell the shapes of its inputs. Call it once on a batch, before"),
        (_in_float16, r"layer 'dense.*' computes in mixed_float16. Save it and pass the file, wh"),
    ],
)
def test_live_models_that_need_a_file_say_so(build: Callable[[], Any], message: str):
    with pytest.raises(InputError, match=message):
        open_source(build())


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_without_a_version_is_read_by_its_words(alone: bool, tmp_path: Path):
    """Keras takes it for one of Keras 1, whose kernels had other axes."""
    import h5py
    from tf_keras import layers

    first = layers.Conv1D(4, 3, input_shape=(8, 5))
    model = tf_keras.Sequential([first, layers.Flatten(), layers.Dense(2)])
    if alone:
        model.save_weights(str(tmp_path / "model.h5"))
        (tmp_path / "model.json").write_text(model.to_json())
    else:
        model.save(tmp_path / "model.h5")
    with h5py.File(tmp_path / "model.h5", "r+") as file:
        for group in (file, file.get("model_weights", file)):
            for name in {"keras_version", "backend"} & set(group.attrs):
                del group.attrs[name]
    source = open_source(tmp_path / "model.h5")
    batch = np.random.default_rng(0).standard_normal((3, 8, 5)).astype(np.float32)
    (received,) = source.forward({source.inputs[0].name: batch}).values()
    np.testing.assert_allclose(received, model(batch), rtol=1e-5, atol=1e-6)
    told = f"written by Keras {tf_keras.__version__ if alone else 2}, read"
    assert any(note.startswith(told) for note in source.origin.notes)
    assert any(f"turns the kernels of {first.name}" in note for note in source.origin.notes)


@pytest.mark.parametrize(
    ("name", "said"), [("keras-1.2-images", False), ("keras-2.0-theano", True)]
)
def test_an_unsaid_backend_is_an_assumption_of_the_report(name: str, said: bool, tmp_path: Path):
    path, _, _ = written(FILES[name], tmp_path)
    notes = open_source(path).origin.notes
    assert any("does not say which backend" in note for note in notes) != said
