"""`tfmp calibrate`: a model file and data in, a scale out; clear words for what cannot be used."""

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from tfmp.commands.cli import main

X = np.random.default_rng(0).standard_normal((20, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


OWN_CODE = """
import sys
import keras
import numpy as np

def build():
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    net.compile("sgd", "mse")
    return net

def forked():
    x = keras.Input((4,))
    h = keras.layers.Dense(8, activation="relu")(x)
    net = keras.Model(x, {name: keras.layers.Dense(1, name=name)(h) for name in ("left", "right")})
    net.compile("sgd", {"left": "mse", "right": "mse"})
    return net

def leaves():
    sys.exit(3)

def ends():
    yield np.ones((2, 4)), np.ones((2, 1))
    raise OSError("gone")
"""


@pytest.fixture
def own_code(tmp_path, monkeypatch) -> None:
    (tmp_path / "own_code.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    np.savez("words.npz", features=X.astype(str), labels=Y)
    np.savez("narrow.npz", features=X[:, :3], labels=Y)


def run(*arguments: str):
    return CliRunner().invoke(main, ["calibrate", *arguments])


def test_a_table_on_stdout(model):
    result = run(model, "--data", "d.npz")
    assert result.exit_code == 0
    assert result.stdout.startswith("Recommended static loss scale: ")
    assert "hidden" in result.stdout


def test_one_json_document_and_the_options(model):
    result = run(model, "--data", "d.npz", "--json", "--batches", "2", "--batch-size", "5")
    document = json.loads(result.stdout)
    assert (document["batches"], document["samples"], document["margin"]) == (2, 10, 8.0)
    wider = json.loads(run(model, "--data", "d.npz", "--json", "--margin", "16").stdout)
    plain = json.loads(run(model, "--data", "d.npz", "--json").stdout)
    assert wider["recommended_scale"] == plain["recommended_scale"] / 2


def test_data_from_a_function_and_sample_weights(model, tmp_path):
    (tmp_path / "batches_of_test.py").write_text(
        "import numpy as np\ndef make():\n    yield np.ones((3, 4)), np.zeros((3, 1))\n"
    )
    result = run(model, "--data", "batches_of_test:make", "--json")
    assert json.loads(result.stdout)["samples"] == 3
    np.savez("w.npz", features=X, labels=Y, sample_weight=np.zeros(20))
    assert "exactly zero" in run(model, "--data", "w.npz").stderr


def test_several_outputs_have_labels_of_their_own(own_code, model):
    result = run("own_code:build", "--data", "d.npz", "--batches", "1", "--batch-size", "1")
    assert "from 1 sample\n" in result.stdout
    np.savez("two.npz", features=X, **{"labels.right": Y, "labels.left": Y})
    result = run("own_code:forked", "--data", "two.npz")
    assert result.exit_code == 0, result.stderr
    np.savez("two.npz", features=X, **{"labels": Y, "labels.left": Y})
    result = run("own_code:forked", "--data", "two.npz")
    assert result.exit_code == 2
    assert "has 'labels' and 'labels.left': keep the array of all outputs" in result.stderr


def test_arrays_have_the_names_that_keras_gives_them(model):
    np.savez("xy.npz", x=X, y=Y)
    assert run(model, "--data", "xy.npz").exit_code == 0
    np.savez("xy.npz", x_train=X, y_train=Y, x_test=X[:3], y_test=Y[:3])
    assert "from 20 samples" in run(model, "--data", "xy.npz").stdout


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "--data 'd.npz' has 'x'; training needs inputs and labels. Expected"),
        ({"labels": Y}, "--data 'd.npz' has 'labels'; training needs"),
        (
            {"x": X, "labels": Y[:3]},
            "data expects arrays of as many samples each; received 20 in x and 3 in y",
        ),
    ],
)
def test_arrays_that_do_not_fit(model, arrays, message):
    np.savez("d.npz", **arrays)
    result = run(model, "--data", "d.npz")
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m.keras", "--data", "no.npz"), "--data 'no.npz': no such file. Expected"),
        (("m.keras", "--data", "m.keras"), "--data 'm.keras': an unknown suffix."),
        (
            ("m.keras", "--data", "nothing:here"),
            "'nothing:here' cannot be imported: ModuleNotFound",
        ),
        (("d.npz", "--data", "d.npz"), "MODEL 'd.npz': an unknown suffix. Expected"),
        (("own_code:leaves", "--data", "d.npz"), "cannot be called: SystemExit: 3. Expected"),
        (("own_code:build", "--data", "own_code:ends"), "reading one raised OSError: gone"),
        (("own_code:build", "--data", "words.npz"), "cannot train on this batch: "),
        (("own_code:build", "--data", "narrow.npz"), "expected axis -1 of input shape to have"),
        (("own_code:forked", "--data", "d.npz"), "Its outputs are left and right. Pass x and y"),
        (("m.keras", "--data", "d.npz", "--report", "r.txt"), "expects one of the suffixes .json"),
        (("m.keras", "--data", "d.npz", "--report", "no/r.json"), "Create 'no' first."),
    ],
)
def test_bad_input_is_one_message_and_status_2(model, own_code, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""
