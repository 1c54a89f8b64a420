"""Files of Keras 2 that do more than compute are refused before anything of them runs."""

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras_models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from click.testing import CliRunner
from hostile_keras2 import architectures, archive, h5, reaching_out, within_itself
from keras2_writing import filled
from tf_keras.src.saving import serialization_lib

from tfmp.converters import convert, validate
from tfmp.converters.commands.cli import main
from tfmp.converters.intake import open_source
from tfmp.converters.intake.keras2 import reader
from tfmp.converters.shared.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")

SECRET = np.arange(8, dtype="f4").reshape(4, 2) + 1000


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the user's, in another folder, that no model may read or change."""
    folder = tmp_path / "home"
    folder.mkdir()
    with h5py.File(folder / "secret.h5", "w") as file:
        file["0"] = SECRET
        file.create_group("group").attrs["layer_names"] = np.array([b"x"])
        file.create_group("group/x").attrs["weight_names"] = np.array([], dtype="S1")
        file.create_group("group/kernel")
    return folder / "secret.h5"


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch):
    """Fails where Keras 2 begins to build a model."""

    def built(*args: object, **kwargs: object) -> None:
        pytest.fail("Keras 2 has begun to build the model")  # no Exception, which would be told

    monkeypatch.setattr(tf_keras.models, "model_from_config", built)
    monkeypatch.setattr(serialization_lib, "deserialize_keras_object", built)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("suffix", [".h5", ".keras"])
def test_an_architecture_that_does_more_than_compute_is_refused(suffix: str, tmp_path: Path):
    path = tmp_path / f"model{suffix}"
    opened = []
    for name, config in architectures().items():
        (h5 if suffix == ".h5" else archive)(config, path)
        try:
            open_source(path)
        except InputError as error:
            text = str(error)
            assert str(path) in text, name
            assert "--unsafe-load" in text or "--custom-objects" in text or "vocabulary" in text
        except pytest.fail.Exception:
            opened.append(name)
    assert not opened


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("suffix", [".h5", ".hdf5", ".keras"])
def test_weights_in_other_files_are_refused(suffix: str, secret: Path, tmp_path: Path, monkeypatch):
    if suffix == ".keras":  # which is looked into once its architecture is built
        made = lambda *_, **__: tf_keras.Sequential()  # noqa: E731
        monkeypatch.setattr(serialization_lib, "deserialize_keras_object", made)
        monkeypatch.setattr(reader, "_copy_weights", lambda *_: pytest.fail("weights are read"))
    path, before = tmp_path / f"model{suffix}", secret.read_bytes()
    for name, write in reaching_out(secret).items():
        if suffix == ".keras" and name == "the group of weights":
            continue
        write(path)
        with pytest.raises(InputError, match=r"model\..*lie in other files"):
            open_source(path)
    assert secret.read_bytes() == before


def test_links_within_a_file_are_followed(tmp_path: Path):
    within_itself(tmp_path / "model.h5")
    (received,) = open_source(tmp_path / "model.h5").forward({"x": np.eye(4, dtype="f4")}).values()
    np.testing.assert_array_equal(received, np.arange(8).reshape(4, 2))


def test_every_command_refuses_them(secret: Path, tmp_path: Path, request: pytest.FixtureRequest):
    candidate = tmp_path / "candidate.onnx"
    convert(keras_models.dense(), to="onnx", output=candidate)
    request.getfixturevalue("nothing_runs")
    asked, linked = tmp_path / "asked.h5", tmp_path / "linked.h5"
    h5(architectures()["an operation WriteFile"], asked)
    reaching_out(secret)["linked"](linked)
    np.savez(tmp_path / "data.npz", x=np.ones((8, 4), "f4"))
    data = str(tmp_path / "data.npz")
    for path in map(str, (asked, linked)):
        out = str(tmp_path / "out")
        for command in (
            ["inspect", path],
            ["validate", path, str(candidate), "--data", data],
            ["onnx", path, "-o", f"{out}.onnx"],
            ["tflite", path, "-o", f"{out}.tflite"],
            ["all", path, "-o", out, "--data", data],
        ):
            ended = CliRunner().invoke(main, command)
            assert ended.exit_code == 2, (command, ended.output)
            assert "--unsafe-load" in ended.output or "other files" in ended.output
        with pytest.raises(InputError):
            convert(path, to="onnx", output=f"{out}.onnx")
        with pytest.raises(InputError):
            validate(path, [candidate], {"x": np.ones((8, 4), "f4")})
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        *("asked.h5", "candidate.onnx", "data.npz", "home", "linked.h5")
    ]


COMPUTING: dict[str, Callable[[Any], Any]] = {
    "math": lambda x: tf.math.log1p(tf.abs(x)) + tf.math.erf(x) - tf.math.reduce_std(x, 1, True),
    "slices": lambda x: x[:, 1:3] + x[:, tf.newaxis, -1],
    "shapes": lambda x: tf.reshape(tf.stack([x, -x], 1), [tf.shape(x)[0], -1]),
    "nn": lambda x: tf.nn.silu(x) + tf.nn.relu6(x) * tf.nn.softmax(x) + tf.nn.l2_normalize(x, 1),
    "image": lambda x: tf.image.resize(tf.reshape(x, [-1, 2, 2, 1]), [4, 4]),
    "choices": lambda x: tf.where(x > 0.0, x, tf.zeros_like(x)) + tf.cast(x >= 0.5, tf.float32),
    "gathered": lambda x: tf.gather(x, [0, 2], axis=1) + tf.gather(x, [1, 3], axis=1),
    "signal": lambda x: tf.signal.frame(x, 2, 1) + tf.signal.hann_window(2),
    "sorted": lambda x: tf.sort(x, axis=1) + tf.math.top_k(x, 4).values,
    "linalg": lambda x: tf.linalg.matmul(x, x, transpose_b=True) + tf.linalg.norm(x),
    "clipped": lambda x: tf.clip_by_value(x, -0.5, 0.5) ** 2 // 0.1 % 0.3,
    "backend": lambda x: tf_keras.backend.dot(x, tf.eye(4)),
    "raw": lambda x: tf.raw_ops.Tanh(x=x) + tf.compat.v1.nn.relu_layer(x, tf.eye(4), tf.ones(4)),
    "split": lambda x: tf.concat(tf.split(x, 2, axis=1)[::-1], 1) + tf.tile(x[:, :1], [1, 4]),
    "checked": lambda x: tf.debugging.check_numerics(x, "x") + tf.identity(x),
}


def test_operations_that_compute_are_read(tmp_path: Path):
    inputs = tf_keras.Input((4,), name="x")
    flat = tf_keras.layers.Flatten
    ends = [flat(name=name.replace(" ", "_"))(f(inputs)) for name, f in COMPUTING.items()]
    model = filled(tf_keras.Model(inputs, ends))
    model.save(tmp_path / "model.h5")
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
    received = open_source(tmp_path / "model.h5").forward({"x": x})
    for (name, value), wanted in zip(received.items(), model(x), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6, err_msg=name)


def held(op: str, attributes: dict[str, Any], path: Path) -> None:
    """A file of an operation on 4 numbers, as Keras of TensorFlow 2.0 to 2.3 wrote it."""
    from hostile_keras2 import functional, layer

    typed = {"T": {"type": "DT_FLOAT"}, **attributes}
    node = {"name": "hostile", "op": op, "input": ["x"], "attr": typed}
    config = functional(layer("TensorFlowOpLayer", {"node_def": node, "constants": {}}))
    config["config"]["layers"][1]["name"] = "tf_op_layer_hostile"
    config["config"]["output_layers"][0][0] = "tf_op_layer_hostile"
    h5(config, path)
    with h5py.File(path, "r+") as file:
        file["model_weights"].attrs["layer_names"] = np.array([b"x", b"tf_op_layer_hostile"])
        file.move("model_weights/hostile", "model_weights/tf_op_layer_hostile")


def test_an_operation_in_an_op_layer_is_looked_at(tmp_path: Path):
    x = np.array([[-1, 0, 1, 2]], "f4")
    turned = {"N": {"i": "1"}, "equation": {"s": b64encode(b"ni->n").decode()}}
    for op, attributes, wanted in (("Softplus", {}, np.log1p(np.exp(x))), ("Einsum", turned, [2])):
        held(op, attributes, tmp_path / "model.h5")
        (received,) = open_source(tmp_path / "model.h5").forward({"x": x}).values()
        np.testing.assert_allclose(received, wanted, rtol=1e-6)

    told = tmp_path / "told"
    urls = {"debug_urls": {"list": {"s": [b64encode(f"file://{told}".encode()).decode()]}}}
    held("DebugIdentityV2", urls, tmp_path / "model.h5")
    with pytest.raises(InputError, match=r"calls 'DebugIdentityV2'.*--unsafe-load"):
        open_source(tmp_path / "model.h5")
    assert not told.exists()
