"""Models in: signatures, names, policies, old files, and what is refused."""

import os
import pickle
import zipfile

import keras
import keras_models
import numpy as np
import pytest

from tfmp.converters.intake import open_source
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.converters.shared.tensors import TensorSpec, synthetic_batch


def test_signatures():
    source = open_source(keras_models.dense())
    assert source.inputs == (TensorSpec("features", (None, 6), "float32"),)
    assert source.outputs == (TensorSpec("scores", (None, 3), "float32"),)
    source = open_source(keras_models.two_towers())
    assert {spec.name: (spec.shape, spec.dtype) for spec in source.inputs} == {
        "ids": ((None, 3), "int32"),
        "dense": ((None, 4), "float32"),
    }
    assert {spec.name for spec in source.outputs} == {"score", "embedding"}
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="out")])
    (spec,) = open_source(model).inputs
    assert spec.name == model.inputs[0]._keras_history.operation.name


@pytest.mark.parametrize("name", ["lstm", "two_towers", "subclassed"])
def test_forward_equals_the_model(name: str):
    model, again = (keras_models.CORPUS[name]() for _ in range(2))
    source = open_source(model)
    assert open_source(again).origin.sha256 == source.origin.sha256  # whatever layers are called
    batch = synthetic_batch(source.inputs, samples=3, seed=1)
    fed = batch if len(batch) > 1 else next(iter(batch.values()))
    expected = model(fed, training=False)
    expected = expected if isinstance(expected, dict) else {source.outputs[0].name: expected}
    received = source.forward(batch)
    for output, value in expected.items():
        np.testing.assert_allclose(received[output], value, rtol=1e-5, atol=1e-6)


def bad_files(folder):
    (folder / "empty.keras").touch()
    (folder / "junk.keras").write_bytes(b"no zip archive")
    (folder / "cut.keras").write_bytes(b"PK\x03\x04 and then nothing")
    (folder / "junk.h5").write_bytes(b"no HDF5")
    (folder / "page.h5").write_bytes(b"<!DOCTYPE html>")
    (folder / "pickle.h5").write_bytes(pickle.dumps({}))
    for name, inside in (("torch.h5", "model/data.pkl"), ("packed.keras", "model.h5")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(inside, b"any")
    (folder / "folder.keras").mkdir()
    os.mkfifo(folder / "pipe.onnx")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.keras", "no such file. Check the path"),
        ("empty.keras", "not a .keras model: it is empty"),
        ("junk.keras", "not a .keras model: it starts with b'no zip a'"),
        ("cut.keras", "not a .keras model: its end, with the list of its contents, is missing"),
        ("junk.h5", "not a .h5 model"),
        ("page.h5", "It is a web page: download the file"),
        ("pickle.h5", "It is a pickle"),
        ("torch.h5", "no model of Keras. Export the PyTorch model with `torch.onnx.export`."),
        ("packed.keras", "no model of Keras. It is an archive: unpack it"),
        ("folder.keras", "without saved_model.pb is no SavedModel"),
        ("pipe.onnx", "is a device or a pipe. Write the model to a file."),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, name: str, message: str):
    bad_files(tmp_path)
    with pytest.raises(InputError) as caught:
        open_source(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("frozen.pb", r"pass `model` to .*`outputs = \['OUTPUT'\]; .*prune\(inputs, "),
        ("model.mlmodel", "is a model of Core ML: name the model that it was made from"),
        ("served/1/keras_metadata.pb", r"part of a SavedModel\. Name its folder, .*served/1\.$"),
        ("served/1/variables/variables.index", r"part of a .*Name its folder, .*served/1\.$"),
        ("served", r"There is one inside: name .*served/1\.$"),
        ("saved_model.tar.gz", "It is an archive: unpack it"),
        ("model.ckpt.index", "holds no model: load it into one"),
        ("model.pt", r"or a SavedModel folder, received suffix '\.pt'.*torch\.onnx\.export"),
    ],
)
def test_files_of_other_kinds_are_refused_with_a_next_step(tmp_path, name: str, message: str):
    for file in ("served/1/saved_model.pb", *[name] * ("." in name)):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"any")
    with pytest.raises(InputError, match=message):
        open_source(tmp_path / name)


def test_an_argument_of_a_newer_keras_is_named(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.save(tmp_path / "old.keras")
    with (
        zipfile.ZipFile(tmp_path / "old.keras") as old,
        zipfile.ZipFile(tmp_path / "new.keras", "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name).replace(b'"units": 2', b'"units": 2, "sheen": 1')
            new.writestr(name, content)
    with pytest.raises(InputError, match=r"'Dense' does not take 'sheen': 1.*Upgrade Keras"):
        open_source(tmp_path / "new.keras")


@pytest.mark.parametrize("name", ["a\udcff.onnx", "a\udcff.keras", "a\udcff", "a\0.onnx"])
def test_a_name_that_is_no_text_is_refused(tmp_path, name: str):
    """Libraries take it for a damaged file, or fail on it."""
    with pytest.raises(InputError, match=r"is not a name in UTF-8.*Rename it\."):
        open_source(tmp_path / name)


def test_what_is_no_usable_model_is_refused():
    model = keras.Sequential([keras.layers.Dense(2)], name="shapeless")
    with pytest.raises(
        InputError, match=r"'shapeless' has no known input shapes.*Call it on a batch"
    ):
        open_source(model)
    with pytest.raises(InputError, match=r"a tf\.function or a path, received int"):
        open_source(3)
    with pytest.raises(
        InputError, match=r"^https://a\.b/c\.keras: is an address.*Download it first"
    ):
        open_source("https://a.b/c.keras")


@keras.saving.register_keras_serializable("tests")
class Doubled(keras.Model):
    def call(self, given):
        return given["x"] * 2


def test_a_subclassed_model_is_known_by_the_shapes_in_its_file(tmp_path):
    model = Doubled()
    model({"x": np.ones((3, 2), np.float32)})
    model.save(tmp_path / "m.keras")
    (spec,) = open_source(tmp_path / "m.keras").inputs
    assert (spec.name, spec.shape) == ("x", (None, 2))


def test_a_model_that_fails_while_traced_is_quoted():
    class Fussy(keras.Model):
        def call(self, x):
            if x.shape[0] is None:
                raise ValueError("I need to know the batch size")
            return x

    model = Fussy(name="fussy")
    model(np.ones((1, 2), np.float32))
    with pytest.raises(ConversionError, match=r"'fussy' cannot be traced.*batch size") as caught:
        open_source(model)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "Arguments received" not in str(caught.value)


@pytest.mark.parametrize("stateful", [True, False])
def test_a_state_that_the_file_cannot_keep_is_noted(stateful: bool) -> None:
    inputs = keras.Input(batch_shape=(2, 3, 4))
    layer = keras.layers.LSTM(2, stateful=stateful, dropout=0.1, name="memory")  # counts a seed
    notes = open_source(keras.Model(inputs, layer(inputs))).origin.notes
    told = [note for note in notes if note.startswith("keeps a state from call to call (")]
    assert len(told) == stateful
