"""Code in a file of Keras 2 does not run, and what only computes is read."""

import json
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from keras2_writing import filled, write_h5
from tf_keras import layers

from tfmp.converters.intake import open_source
from tfmp.converters.intake.trust import LAMBDA, code_in_architecture
from tfmp.converters.shared.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")


@pytest.mark.parametrize("suffix", [".h5", ".keras"])
@pytest.mark.parametrize("library", [tf_keras, keras])
def test_a_lambda_runs_only_when_it_may(library: Any, suffix: str, tmp_path: Path):
    x = library.layers.Input((2,), name="x")
    triple = library.layers.Lambda(lambda value: value * 3.0, name="triple")
    path = tmp_path / f"model{suffix}"
    library.Model(x, triple(x)).save(path)
    with pytest.raises(InputError, match=r"holds a Lambda layer.*--unsafe-load"):
        open_source(path)
    source = open_source(path, unsafe_load=True)
    np.testing.assert_array_equal(source.forward({"x": np.ones((1, 2), "f")})["triple"], [[3, 3]])


def test_a_lambda_that_calls_a_function_of_the_users_is_read():
    inner = {"function": "scale", "function_type": "function", "name": "scaled"}
    config = {"class_name": "Lambda", "config": inner}
    assert code_in_architecture(config, {"scale"}) is None
    assert code_in_architecture(config, ()) == LAMBDA


def test_a_vocabulary_outside_of_the_file_is_not_read():
    def lookup(vocabulary):
        return {"class_name": "StringLookup", "config": {"vocabulary": vocabulary}}

    assert code_in_architecture(lookup(["a"]), ()) is None
    reason = code_in_architecture(lookup("/etc/passwd"), ())
    assert reason is not None
    assert "a vocabulary from '/etc/passwd', outside of this file" in reason.what
    assert "unsafe" not in reason.remedy


@pytest.mark.parametrize(("module", "name"), [("builtins", "exec"), ("shop.layers", "Attention")])
def test_an_archive_imports_no_module_that_it_names(module: str, name: str, tmp_path: Path):
    model = filled(tf_keras.Sequential([layers.Dense(2, activation="relu", input_shape=(3,))]))
    path = tmp_path / "model.keras"
    model.save(tmp_path / "plain.keras")
    with zipfile.ZipFile(tmp_path / "plain.keras") as old, zipfile.ZipFile(path, "w") as new:
        for item in old.namelist():
            content = old.read(item)
            if item == "config.json":
                config = json.loads(content)
                foreign = {"module": module, "class_name": "function", "config": name}
                config["config"]["layers"][1]["config"]["activation"] = foreign
                content = json.dumps(config).encode()
            new.writestr(item, content)
    with pytest.raises(InputError, match=rf"uses '{name}' of '{module}'.*--custom-objects"):
        open_source(path)


def test_foreign_parts(tmp_path: Path):
    model = filled(tf_keras.Sequential([layers.Dense(2, input_shape=(3,), name="dense")]))
    inner = model.layers[0].get_config()
    inner["kernel_regularizer"] = {"class_name": "Their>Own", "config": {"strength": 1}}
    config = {"class_name": "Sequential", "config": [{"class_name": "Dense", "config": inner}]}
    path = tmp_path / "model.h5"
    write_h5(path, config, {"dense": model.get_weights()}, "2.2.0")
    x = np.ones((1, 3), np.float32)
    (received,) = open_source(path).forward({"dense_input": x}).values()
    np.testing.assert_allclose(received, model(x), rtol=1e-6)
    config = {
        "class_name": "Sequential",
        "config": [{"class_name": "Attention2", "config": {"batch_input_shape": [None, 3]}}],
    }
    path = tmp_path / "model.h5"
    write_h5(path, config, {}, "2.2.0")
    with pytest.raises(InputError, match=r"uses 'Attention2'.*--custom-objects"):
        open_source(path)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}}, "io.write_file"),
        ({"class_name": "Lambda", "config": {"function": ["code", None, None]}}, "Lambda layer"),
        ({"class_name": "Popen", "module": "subprocess", "config": {}}, "'Popen' of 'subprocess'"),
    ],
)
def test_the_name_of_a_class_that_is_given_hides_no_other(config: dict, named: str):
    assert named in str(code_in_architecture({**config, "registered_name": "Own"}, {"Own"}))


def test_no_module_is_imported_for_a_class_that_is_given():
    config = {"class_name": "Own", "module": "shop.layers", "config": {}}
    assert "'Own' of 'shop.layers'" in str(code_in_architecture(config, {"Own"}))
    assert code_in_architecture({**config, "registered_name": "Own"}, {"Own"}) is None
    packed = {**config, "registered_name": "shop>Own"}
    assert code_in_architecture(packed, {"Own", "shop>Own"}) is None
