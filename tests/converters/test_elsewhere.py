"""Models of Keras on other backends; on TensorFlow they take the same way to another process."""

import keras
import keras_models
import numpy as np
import pytest
from converted_live import converted_live
from custom_layers import build as with_own_layer
from keras import ops

import tfmp
from tfmp.converters import convert, elsewhere, open_source, validate
from tfmp.converters.shared import worker
from tfmp.converters.shared.errors import InputError


@pytest.fixture(autouse=True)
def away(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if keras.backend.backend() == "tensorflow":
        monkeypatch.setattr(elsewhere, "_is_of_another_backend", lambda model: True)


@pytest.mark.parametrize("to", ["onnx", pytest.param("tflite", marks=pytest.mark.slow)])
def test_files_are_those_that_tensorflow_makes_of_its_own_model(to):
    keras.backend.clear_session()  # numbers layers from the first on
    model = keras_models.conv()
    made = convert(model, to)
    assert made.path.name == f"conv.{to}"
    own = converted_live(model, model.get_weights(), to=to, output=f"own.{to}")
    assert made.path.read_bytes() == own.path.read_bytes()
    assert (made.sha256, made.known) == (own.sha256, own.known)


def test_data_of_this_process_are_compared_there():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)], name="scores")
    model.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True))
    tfmp.plan(model, "mixed_float16").apply()
    x = np.random.default_rng(0).standard_normal((96, 6)).astype("float32")
    batches = [(ops.convert_to_tensor(part), np.arange(32) % 3) for part in np.split(x, 3)]
    stages, counts = [], []
    made = convert(
        model, data=iter(batches), progress=stages.append, count=lambda *news: counts.append(news)
    )
    report = made.report
    assert "loading the model" in stages
    assert counts[-1][0] == report.data.samples == 96
    assert (report.reference.name, report.reference.path) == ("scores", None)
    assert report.candidates[0].labels[0].kind == "class ids"
    again = validate(model, made.path, x)
    assert str(again.candidates[0].outputs[0].task) == "classification"  # by the compiled loss
    assert again.candidates[0].outputs[0].rel_l2 == report.candidates[0].outputs[0].rel_l2


def test_classes_of_the_users_own_go_along():
    model = with_own_layer()
    assert convert(model).path.name == "custom.onnx"
    assert not is_kept()  # the class may be another one at the next call
    model.save("custom.keras")
    with pytest.raises(InputError, match="'Doubling'"):
        convert("custom.keras", output="again.onnx")
    assert is_kept()


def is_kept() -> bool:
    return any("OnTensorFlow" in target for _, target in worker._idle)


def test_a_class_that_cannot_be_imported_is_refused():
    class Halving(keras.layers.Layer):
        def call(self, x):
            return x / 2

    model = keras.Sequential([keras.Input((2,)), Halving()])
    told = (
        r"'Halving' is defined inside a function. Keras runs on .* Move it to the top of a module"
    )
    with pytest.raises(InputError, match=told):
        convert(model)


def test_an_open_source_cannot_go_there():
    if keras.backend.backend() != "tensorflow":
        with pytest.raises(InputError, match="Pass the model itself to `convert` or `validate`"):
            open_source(keras_models.dense())
