"""Each Keras file is read by the Keras that wrote it, whatever its name, and told of where not."""

import builtins
import importlib
import json
import re
import warnings
from pathlib import Path
from zipfile import ZipFile

import h5py
import keras
import numpy as np
import pytest
import tf_keras
from keras2_files import FILES
from keras2_writing import filled

from tfmp.converters.intake import open_source
from tfmp.converters.shared.errors import InputError

X = np.random.default_rng(0).standard_normal((4, 3), dtype=np.float32)


def saved(folder: Path, name: str = "model.h5") -> tuple[Path, object]:
    """A file of Keras 2 with a model that takes three numbers."""
    layers = tf_keras.layers
    model = filled(tf_keras.Sequential([layers.Dense(2, input_shape=(3,), name="out")]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(folder / name)
    return folder / name, model


def forward(source) -> np.ndarray:
    (spec,) = source.inputs
    return next(iter(source.forward({spec.name: X}).values()))


def test_the_report_says_who_wrote_the_file_and_who_read_it(tmp_path: Path):
    path, _ = saved(tmp_path)
    (note,) = open_source(path).origin.notes
    version = tf_keras.__version__
    assert note == f"written by Keras {version}, read by tf_keras {version}"


@pytest.mark.parametrize(("content", "name"), [(".h5", "m.keras"), (".keras", "m.h5")])
def test_a_file_is_opened_as_what_it_is(content: str, name: str, tmp_path: Path):
    path, model = saved(tmp_path, f"written{content}")
    path.rename(tmp_path / name)
    source = open_source(tmp_path / name)
    np.testing.assert_allclose(forward(source), model(X), rtol=1e-5)


def test_without_tf_keras_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch):
    path, _ = saved(tmp_path)
    real = builtins.__import__

    def missing(name: str, *args, **kwargs):
        if name == "tf_keras":
            raise ModuleNotFoundError("No module named 'tf_keras'", name="tf_keras")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    message = r"model\.h5: was written by Keras .*misreads\. Install .*: pip install tf_keras$"
    with pytest.raises(InputError, match=message):
        open_source(path)


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("suffix", [".h5", ".keras"])
@pytest.mark.parametrize("library", [tf_keras, keras], ids=["keras-2", "keras-3"])
def test_layers_of_the_gallery_are_known(library, suffix: str, tmp_path: Path):
    """Keras's ConvNeXt and InceptionResNetV2 hold classes that its files do not find."""
    gallery = f"{library.__name__}.src.applications"
    convnext = importlib.import_module(f"{gallery}.convnext")
    inception = importlib.import_module(f"{gallery}.inception_resnet_v2")
    x = library.layers.Input((3,))
    hidden = convnext.LayerScale(0.5, 3)(x)
    hidden = convnext.StochasticDepth(0.2)(hidden)
    model = library.Model(x, inception.CustomScaleLayer(0.3)([x, hidden]))
    path = tmp_path / f"m{suffix}"
    model.save(path)
    received = forward(open_source(path))
    np.testing.assert_allclose(received, np.asarray(model(X)), rtol=1e-5)


def ids_and_masks() -> keras.Model:
    ids = keras.Input((6,), dtype="int32")
    words = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    return keras.Model(ids, keras.layers.Bidirectional(keras.layers.LSTM(3))(words))


def operators() -> keras.Model:
    """Operations by the names of layers, and layers of these names."""
    x = keras.Input((6,))
    hidden = keras.ops.exp(x)[:, ::2] * 2.0
    hidden = keras.layers.Add()([hidden, keras.ops.abs(hidden)]) + hidden
    both = keras.ops.concatenate([hidden, keras.layers.Softmax()(hidden)], axis=-1)
    return keras.Model(x, keras.ops.softmax(keras.layers.Multiply()([both, both])))


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("build", [ids_and_masks, operators])
def test_operations_in_hdf5_of_keras_3_are_known(build, tmp_path: Path):
    """Keras writes them, masks among them, and cannot read them."""
    model = build()
    model.save(tmp_path / "m.h5")
    source = open_source(tmp_path / "m.h5")
    x = np.array([[1, 2, 3, 0, 0, 0], [4, 1, 0, 0, 0, 0]], model.inputs[0].dtype)
    (received,) = source.forward({source.inputs[0].name: x}).values()
    np.testing.assert_allclose(received, np.asarray(model(x)), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_operations_that_call_a_function_are_not_known(tmp_path: Path):
    x = keras.Input((6,))
    keras.Model(x, keras.ops.exp(x)).save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"][1]["class_name"] = "Map"
        file.attrs["model_config"] = json.dumps(config)
    with pytest.raises(InputError, match="the model uses 'Map', which Keras does not know"):
        open_source(tmp_path / "m.h5")


def test_layers_keep_their_names(tmp_path: Path):
    path = tmp_path / "model.h5"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FILES["keras-2.4-nested"].write(path)
    names = set(open_source(path).layers.values())
    kinds = {"conv2d", "batch_normalization", "depthwise_conv2d", "dense"}
    assert kinds <= {name.rstrip("0123456789").rstrip("_") for name in names}


def test_a_file_of_keras_2_takes_classes_of_keras_2(tmp_path: Path):
    """Both names are of one class here, as where a module imports tf.keras."""

    class Doubled(tf_keras.layers.Layer):
        def call(self, inputs):
            return 2.0 * inputs

    x = tf_keras.Input((3,))
    tf_keras.Model(x, Doubled()(x)).save(tmp_path / "m.keras")
    source = open_source(tmp_path / "m.keras", custom_objects={"Doubled": Doubled})
    np.testing.assert_array_equal(forward(source), 2 * X)
    new = type("Doubled", (keras.layers.Layer,), {"call": Doubled.call})
    with pytest.raises(InputError, match=r"'Doubled' is one for Keras 3\. Set TF_USE_LEGACY_KER"):
        open_source(tmp_path / "m.keras", custom_objects={"Doubled": new})


def test_a_class_that_cannot_be_made_again_is_named_with_the_reason(tmp_path: Path):
    class Fixed(keras.layers.Layer):
        def __init__(self):
            super().__init__()

        def call(self, inputs):
            return 2.0 * inputs

    x = keras.Input((3,))
    keras.Model(x, Fixed()(x)).save(tmp_path / "m.keras")
    reason = (
        r"'Fixed' cannot be made from this file\. .*unexpected keyword argument '\w+'\. Let its"
    )
    with pytest.raises(InputError, match=reason):
        open_source(tmp_path / "m.keras", custom_objects={"Fixed": Fixed})


def test_damaged_configurations_and_weights(tmp_path: Path):
    path, _ = saved(tmp_path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"][1]["config"]["units"] = "many " * 200
        file.attrs["model_config"] = json.dumps(config)
    with pytest.raises(
        InputError, match=r"invalid literal for int.*\)\. Name the modules"
    ) as caught:
        open_source(path)
    assert "again" not in str(caught.value)
    path, _ = saved(tmp_path)
    with h5py.File(path, "r+") as file:
        for layer in file["model_weights"].values():
            for name in list(layer):
                del layer[name]
    with pytest.raises(InputError, match=r"It is damaged: copy or save the model again\.$"):
        open_source(path)


def test_a_vocabulary_outside_of_the_file_is_told_as_one(tmp_path: Path):
    x = keras.Input((1,), dtype="string")
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"])
    keras.Model(x, lookup(x)).save(tmp_path / "words.keras")
    assert open_source(tmp_path / "words.keras").inputs  # with the words inside
    with ZipFile(tmp_path / "words.keras") as old, ZipFile(tmp_path / "file.keras", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b'["a", "b"]', b'"https://a.org/words"'))
    with pytest.raises(InputError, match=r"a vocabulary from 'https://a\.org/words'.*") as caught:
        open_source(tmp_path / "file.keras")
    assert "unsafe" not in str(caught.value)
    assert "Lambda" not in str(caught.value)


def test_a_layer_that_runs_another_model_is_told_as_one(tmp_path: Path):
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    inner.export(tmp_path / "inner", verbose=False)
    x = keras.Input((3,))
    layer = keras.layers.TFSMLayer(str(tmp_path / "inner"), call_endpoint="serve")
    keras.Model(x, layer(x)).save(tmp_path / "outer.keras")
    with pytest.raises(
        InputError, match=r"a TFSMLayer.*Convert the SavedModel folder.*--unsafe-load"
    ):
        open_source(tmp_path / "outer.keras")
    source = open_source(tmp_path / "outer.keras", unsafe_load=True)
    np.testing.assert_allclose(forward(source), inner(X), rtol=1e-5)
    (tmp_path / "inner").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"is not there .*inner.*Put that folder there"):
        open_source(tmp_path / "outer.keras", unsafe_load=True)


def test_a_lambda_that_reads_a_name_of_its_program(tmp_path: Path):
    def model():
        tripled = keras.layers.Lambda(lambda x: x * len(X), output_shape=(3,))
        return keras.Sequential([keras.Input((3,)), tripled, keras.layers.Dense(2)])

    saved = model()
    saved.save(tmp_path / "m.keras")
    with pytest.raises(InputError, match=r"'X' is not defined\)\. Build .*--architecture"):
        open_source(tmp_path / "m.keras", unsafe_load=True)
    source = open_source(tmp_path / "m.keras", architecture=model)
    np.testing.assert_allclose(forward(source), saved(X), rtol=1e-5)


def test_pickled_weights_are_refused_without_a_way_to_load_them(tmp_path: Path):
    """Keras looks for arrays beside the usual ones, and NumPy says how to run what they hold."""
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(tmp_path / "sound.keras")
    hostile = {"layers/dense": np.array({"0": Touch(tmp_path / "ran")}, dtype=object)}
    np.savez(tmp_path / "model.weights.npz", **hostile)
    with ZipFile(tmp_path / "sound.keras") as old, ZipFile(tmp_path / "m.keras", "w") as new:
        for name in ("metadata.json", "config.json"):
            new.writestr(name, old.read(name))
        new.write(tmp_path / "model.weights.npz", "model.weights.npz")
    with pytest.raises(InputError, match=r"m\.keras: its arrays are pickled objects") as caught:
        open_source(tmp_path / "m.keras")
    assert not (tmp_path / "ran").exists()
    assert not re.search("allow_pickle|unsafe|trust|custom", str(caught.value))


class Touch:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_bytecode_of_another_python_is_said_to_be_that(tmp_path: Path):
    path, _ = saved(tmp_path)
    code = ["4w==\n", None, None]  # where marshal finds an end, as in files of Python 3.5
    layer = {"class_name": "Lambda", "config": {"function": code, "function_type": "lambda"}}
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"].append(layer)
        file.attrs["model_config"] = json.dumps(config)
    with pytest.raises(InputError, match=r"bytecode of another Python.*--architecture FILE.py"):
        open_source(path, unsafe_load=True)
