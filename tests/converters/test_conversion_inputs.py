"""The model's inputs as the data and the options have them."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters import convert, open_source, validate
from tfmp.converters.shared.errors import ConversionError, InputError

IDS = np.random.default_rng(0).integers(0, 50, (100, 6)).astype(np.int32)
LEFT = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32)
RIGHT = np.random.default_rng(2).standard_normal((100, 2)).astype(np.float32)


@keras.saving.register_keras_serializable("inputs")
class Lookup(keras.layers.Layer):
    """Takes rows by ids, which it never casts, so that a trace with floats fails."""

    def build(self, shape):
        self.table = self.add_weight(shape=(50, 8))

    def call(self, ids):
        return keras.ops.mean(keras.ops.take(self.table, ids, axis=0), axis=1)


@keras.saving.register_keras_serializable("inputs")
class Ranker(keras.Model):
    """A subclassed model, which records shapes and no dtypes."""

    def __init__(self, **options):
        super().__init__(**options)
        self.lookup, self.head = Lookup(), keras.layers.Dense(3)

    def call(self, ids):
        return self.head(self.lookup(ids))


class OverTime(keras.Model):
    """Loops over time in Python, which needs to know how long it is."""

    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(2)

    def call(self, x):
        return sum(self.head(x[:, step]) for step in range(x.shape[1]))


@pytest.mark.parametrize(("form", "saved"), [("array", False), ("npz", True), ("batches", True)])
def test_ids_are_what_the_data_says(form: str, saved: bool, tmp_path: Path):
    live = model = Ranker()
    live(IDS[:2])
    np.savez(tmp_path / "ids.npz", ids=IDS)
    data = {"array": IDS, "npz": tmp_path / "ids.npz", "batches": [IDS[:60], IDS[60:]]}[form]
    if saved:
        model.save(tmp_path / "model.keras")
        model = tmp_path / "model.keras"
    artifact = convert(model, "onnx", tmp_path / "model.onnx", data=data)
    assert artifact.report.verdict == "PASS"
    # Keras leaves the weights out of layers that it could not build when it loaded the file.
    assert validate(live, artifact, data).verdict == "PASS"
    with pytest.raises(ConversionError, match="Give data that have the dtypes of"):
        convert(model, "onnx", tmp_path / "blind.onnx")


def test_input_shapes_hold_from_the_first_trace_on():
    model = OverTime()
    model(np.ones((2, 5, 3), np.float32))
    model(np.ones((2, 7, 3), np.float32))
    source = open_source(model, input_shapes={"input": (None, 5, 3)})
    assert source.inputs[0].shape == (None, 5, 3)
    once = OverTime()
    once(np.ones((2, 5, 3), np.float32))  # the sizes of one call are no declaration
    assert open_source(once, input_shapes={"input": (None, 4, 3)}).inputs[0].shape == (None, 4, 3)

    @tf.function(input_signature=[tf.TensorSpec((None, None, 3))])
    def over_time(steps):
        return sum(steps[:, step] for step in range(steps.shape[1]))

    with pytest.raises(ConversionError, match="Fix sizes that vary with --batch or --input-shape"):
        open_source(over_time)
    assert open_source(over_time, input_shapes={"steps": (None, 5, 3)}).outputs[0].shape == (
        None,
        3,
    )
    # Keras numbers the tensors of inputs without names.
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.Conv1D(2, 3)])
    shapes = {model.inputs[0].name: (None, 9, 3)}
    assert open_source(model, input_shapes=shapes).outputs[0].shape == (None, 7, 2)


def test_convert_and_validate_take_what_says_how_a_model_is_loaded(tmp_path: Path):
    model, data = OverTime(), np.ones((8, 5, 3), np.float32)
    model(data)
    shapes = {"input": (None, 5, 3)}
    file = convert(model, output=tmp_path, input_shapes=shapes).path
    assert file == tmp_path / f"{model.name}.onnx"
    assert validate(model, file, data, input_shapes=shapes).candidates[0].outputs[0].samples == 8
    with pytest.raises(InputError, match="open already"):
        convert(
            open_source(model, input_shapes=shapes), output=tmp_path / "o.onnx", input_shapes=shapes
        )
    with pytest.raises(InputError, match="shapes: no option of validate"):
        validate(model, file, data, shapes=shapes)


@pytest.fixture(scope="module")
def towers() -> keras.Model:
    inputs = [keras.Input((4,)), keras.Input((2,))]
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Concatenate()(inputs)))


@pytest.mark.parametrize("form", [list, tuple])
def test_one_array_for_each_input(towers: keras.Model, form: type, tmp_path: Path):
    artifact = convert(towers, "onnx", tmp_path / "model.onnx", data=form([LEFT, RIGHT]))
    assert artifact.report.verdict == "PASS"
    assert artifact.report.data.samples == 100
    labelled = validate(towers, artifact, form([LEFT, RIGHT]), labels=np.zeros(100, np.int32))
    assert labelled.data.labelled


def test_names_of_layers_and_of_tensors(towers: keras.Model, tmp_path: Path):
    artifact = convert(towers, "onnx", tmp_path / "model.onnx")
    tensors = [tensor.name for tensor in towers.inputs]
    layers = [tensor._keras_history.operation.name for tensor in towers.inputs]
    for names in (tensors, layers):
        data = dict(zip(names, (LEFT, RIGHT), strict=True))
        assert validate(towers, artifact, data).verdict == "PASS"
    with pytest.raises(InputError, match=f"Expected {layers[0]}: .*received 'a', 'b'"):
        validate(towers, artifact, {"a": LEFT, "b": RIGHT})


class Spectra(keras.layers.Layer):
    """Windows of 400 numbers, whose number is open."""

    def call(self, x):
        frames = tf.signal.frame(x, 400, 160)
        return tf.math.log(tf.abs(tf.signal.rfft(frames, [400])) + 1e-6)

    def compute_output_shape(self, shape):
        return shape[0], None, 201


@pytest.mark.parametrize("given", [True, False])
def test_signals_are_as_long_as_their_windows_need(given: bool, tmp_path: Path):
    sound = keras.Input((None,))
    hidden = keras.layers.Conv1D(4, 3)(Spectra()(sound))
    model = keras.Model(sound, keras.layers.GlobalAveragePooling1D()(hidden))
    x = np.random.default_rng(0).standard_normal((64, 2000)).astype(np.float32)
    artifact = convert(model, "onnx", tmp_path / "model.onnx", data=x if given else None)
    assert validate(model, artifact, x).verdict == "PASS"


def test_the_export_is_checked_on_rows_of_the_data(tmp_path: Path):
    """No size that is tried without data is as long as what is cut off."""
    series = keras.Input((None, 2))
    cut = keras.layers.Cropping1D(20_000)(series)
    hidden = keras.layers.Conv1D(4, 3)(cut)
    model = keras.Model(series, keras.layers.GlobalAveragePooling1D()(hidden))
    x = np.ones((2, 40_010, 2), np.float32)
    assert convert(model, "onnx", tmp_path / "model.onnx", data=x).report is not None
    with pytest.raises(ConversionError, match="--input-shape"):
        convert(model, "onnx", tmp_path / "blind.onnx")
