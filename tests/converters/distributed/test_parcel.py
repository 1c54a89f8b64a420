"""References and candidates arrive elsewhere as they were, without the code that made them."""

from pathlib import Path

import keras
import keras_models
import numpy as np
import pytest

from tfmp.converters import convert, open_source
from tfmp.converters.distributed.parcel import pack_file, pack_source, unpack, unpack_source
from tfmp.converters.formats import format_of
from tfmp.converters.shared.errors import InputError


def sent(source, folder):
    return unpack_source(pack_source(source), Path(folder))


def assert_same(original, arrived, batch):
    assert (arrived.inputs, arrived.outputs) == (original.inputs, original.outputs)
    assert arrived.hints == original.hints
    expected, received = original.forward(batch), arrived.forward(batch)
    assert list(expected) == list(received)
    for name, array in expected.items():
        np.testing.assert_array_equal(received[name], array)


def test_a_live_model_arrives_without_its_classes(tmp_path):
    """Two inputs whose order is not that of their names, and a class of this process alone."""

    class Unknown(keras.layers.Layer):
        def call(self, x):
            return keras.ops.tanh(x) * 3

    b, a = keras.Input((4,), name="b"), keras.Input((3,), name="a")
    y = keras.layers.Dense(3, name="z")(b) + Unknown()(a)
    model = keras.Model([b, a], {"out": y, "early": keras.layers.Softmax()(y)})
    model.compile(loss={"out": "mse", "early": "categorical_crossentropy"})
    source = open_source(model)
    assert source.hints["out"].loss == "mse"
    generator = np.random.default_rng(0)
    batch = {spec.name: generator.standard_normal((5, spec.shape[1]), dtype=np.float32)
             for spec in source.inputs}  # fmt: skip
    arrived = sent(source, tmp_path)
    assert arrived.origin == source.origin
    assert_same(source, arrived, batch)


def test_a_saved_model_arrives_as_it_is_with_its_sizes(tmp_path):
    keras_models.dense().export(tmp_path / "saved", verbose=False)
    source = open_source(tmp_path / "saved", batch_size=2)
    assert source.inputs[0].shape[0] == 2
    batch = {source.inputs[0].name: np.ones((2, 6), np.float32)}
    assert_same(source, sent(source, tmp_path / "there"), batch)


def test_an_onnx_model_arrives_with_its_weights_beside_it(tmp_path):
    x = keras.Input((6,), name="x")
    model = keras.Model(x, keras.layers.Dense(64, name="y")(x))  # ONNX embeds small weights
    path = convert(model, output=tmp_path / "m.onnx", precision="fp32", external_data=True).path
    model, weights = sorted(pack_file(path, format_of(path)), key=len)
    assert model == "m.onnx"
    assert weights.endswith(".data")
    source = open_source(path)
    arrived = sent(source, tmp_path / "there")
    assert arrived.origin.path == tmp_path / "there" / "m.onnx"
    assert_same(source, arrived, {source.inputs[0].name: np.ones((2, 6), np.float32)})


def test_a_candidate_that_is_broken_still_arrives(tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    arrived = unpack(pack_file(broken, format_of(broken)), tmp_path / "there")
    assert arrived == tmp_path / "there" / "broken.onnx"
    assert arrived.read_bytes() == b"not a model"


def test_a_table_in_a_live_model_is_told(tmp_path):
    words = keras.Input((1,), dtype="string", name="words")
    lookup = keras.layers.StringLookup(vocabulary=["red", "green"])
    model = keras.Model(words, keras.layers.Embedding(3, 2)(lookup(words)), name="texts")
    told = r"model 'texts' looks values up in a table, .* Export it \(`model.export\('folder'\)`\)"
    with pytest.raises(InputError, match=told):
        pack_source(open_source(model))
