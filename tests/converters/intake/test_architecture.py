"""Files of weights: told as such, and read with an architecture from elsewhere."""

import json
import logging
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
import tf_keras
from keras2_writing import filled

from tfmp.converters.intake import open_source
from tfmp.converters.shared.errors import InputError

X = np.random.default_rng(0).standard_normal((4, 3), dtype=np.float32)


def of_keras_2():
    layers = tf_keras.layers
    stack = [layers.Dense(4, activation="tanh", input_shape=(3,)), layers.Dense(2)]
    return filled(tf_keras.Sequential(stack))


def of_keras_3():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="out")])


def forward(source) -> np.ndarray:
    (spec,) = source.inputs
    return next(iter(source.forward({spec.name: X}).values()))


@pytest.mark.parametrize(
    ("build", "name", "dump"),
    [
        (of_keras_2, "m.hdf5", str),
        (of_keras_2, "m.weights.h5", str),
        (of_keras_3, "m.weights.h5", json.dumps),  # JSON within JSON
    ],
)
def test_the_json_file_beside_it_is_taken(build, name: str, dump, tmp_path: Path):
    model = build()
    model.save_weights(tmp_path / name)
    (tmp_path / "m.json").write_text(dump(model.to_json()))
    np.testing.assert_allclose(forward(open_source(tmp_path / name)), model(X), rtol=1e-5)


def test_a_json_file_of_another_name_is_pointed_to_and_can_be_given(tmp_path: Path):
    model = of_keras_2()
    model.save_weights(tmp_path / "weights.h5")
    (tmp_path / "config.json").write_text('{"learning_rate": 0.1}')
    (tmp_path / "model.json").write_text(model.to_json())
    with pytest.raises(InputError, match=r"weights without an archit.*There is model\.json beside"):
        open_source(tmp_path / "weights.h5")
    source = open_source(tmp_path / "weights.h5", architecture=str(tmp_path / "model.json"))
    np.testing.assert_allclose(forward(source), model(X), rtol=1e-5)
    of_keras_2().save_weights(tmp_path / "m.h5")
    (tmp_path / "m.json").write_text(
        tf_keras.Sequential([tf_keras.layers.Dense(2, input_shape=(3,))]).to_json()
    )
    with pytest.raises(InputError, match=r"m\.h5: Keras cannot load this model.*Layer count mism"):
        open_source(tmp_path / "m.h5")


@pytest.mark.filterwarnings("ignore:.*as an HDF5 file")
@pytest.mark.parametrize("name", ["m.weights.h5", "m.h5", "m.keras"])
@pytest.mark.parametrize("build", [of_keras_2, of_keras_3])
def test_a_function_builds_the_model(build, name: str, tmp_path: Path):
    """Also in place of the architecture that the file has."""
    model = build()
    path = tmp_path / name
    (model.save_weights if "weights" in name else model.save)(path)

    def blank():
        fresh = build()
        fresh.set_weights([np.zeros_like(value) for value in model.get_weights()])
        return fresh

    np.testing.assert_allclose(forward(open_source(path, architecture=blank)), model(X), rtol=1e-5)


@pytest.mark.parametrize("build", [of_keras_2, of_keras_3])
def test_optimizers_play_no_part(build, tmp_path: Path, caplog):
    """Keras tells of optimizers whose variables are not those of the file: no matter here."""
    trained = build()
    trained.compile("adam", "mse")
    trained.fit(X, np.zeros((4, 2)), verbose=0)
    path = tmp_path / "m.weights.h5"
    trained.save_weights(path)

    def compiled():
        fresh = build()
        fresh.compile("rmsprop", "mse")
        return fresh

    logger = logging.getLogger("absl")
    logger.addHandler(caplog.handler)  # absl hands nothing on
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            source = open_source(path, architecture=compiled)
    finally:
        logger.removeHandler(caplog.handler)
    assert "optimizer" not in caplog.text
    np.testing.assert_allclose(forward(source), trained(X), rtol=1e-5)


def test_a_json_file_names_losses_and_optimizers_in_vain(tmp_path: Path):
    class OwnAdam(keras.optimizers.Adam):
        pass

    def own_loss(y_true, y_pred):
        return keras.ops.mean((y_true - y_pred) ** 2)

    model = of_keras_3()
    model.compile(OwnAdam(), own_loss, metrics=[own_loss])
    model.fit(X, np.zeros((4, 2)), verbose=0)
    model.save_weights(tmp_path / "m.weights.h5")
    (tmp_path / "m.json").write_text(model.to_json())
    np.testing.assert_allclose(forward(open_source(tmp_path / "m.weights.h5")), model(X), rtol=1e-5)


def test_a_function_is_found_by_its_name(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_models.py").write_text(
        "import tf_keras\n"
        "def build():\n"
        "    layers = tf_keras.layers\n"
        "    stack = [layers.Dense(4, activation='tanh', input_shape=(3,)), layers.Dense(2)]\n"
        "    return tf_keras.Sequential(stack)\n"
        "def broken():\n"
        "    raise RuntimeError('no data')\n"
        "def wider():\n"
        "    stack = [tf_keras.layers.Dense(9, input_shape=(3,)), tf_keras.layers.Dense(2)]\n"
        "    return tf_keras.Sequential(stack)\n"
        "def nothing():\n"
        "    return 3\n"
    )
    model = of_keras_2()
    model.save_weights("m.h5")
    source = open_source("m.h5", architecture="shop_models:build")
    np.testing.assert_allclose(forward(source), model(X), rtol=1e-5)
    for name, message in {
        "broken": r"failed \(RuntimeError: no data\)",
        "nothing": "returned int, expected a built model",
        "wider": "do not fit the model that --architecture builds",
        "absent": "has no 'absent'",
    }.items():
        with pytest.raises(InputError, match=message):
            open_source("m.h5", architecture=f"shop_models:{name}")
    sys.modules.pop("shop_models", None)


@pytest.mark.parametrize(
    ("name", "architecture", "message"),
    [
        ("m.h5", "absent.json", "'absent.json' is neither a file nor FILE.py:function"),
        ("m.h5", "absent_module:build", "there is no module 'absent_module'"),
        ("data.h5", None, "data.h5: is HDF5, but neither a model nor weights of Keras"),
    ],
)
def test_messages(name: str, architecture: str | None, message: str, tmp_path: Path, monkeypatch):
    import h5py

    monkeypatch.chdir(tmp_path)
    model = of_keras_2()
    model.save_weights("m.h5")
    with h5py.File("data.h5", "w") as file:
        file["samples"] = X
    with pytest.raises(InputError, match=message):
        open_source(name, architecture=architecture)


@pytest.mark.parametrize(
    ("name", "text", "step"),
    [
        ("model.json", '{"format": "layers-model"}', "--output_format=keras"),
        ("model.json", '{"format": "graph-model"}', "--output_format=tf_saved_model"),
        ("model.json", "[", "load it into one in Python"),
        ("model.h5", '{"class_name": "Model", "config": {}}', "lacks weights: .*--architecture "),
        ("model.tflite", "TFL3", "tfmp-convert validate MODEL FILE.tflite"),
    ],
)
def test_files_of_other_kinds_name_the_way_back(name: str, text: str, step: str, tmp_path: Path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=step):
        open_source(tmp_path / name)
