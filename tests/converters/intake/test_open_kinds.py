"""SavedModels, tf.functions, ONNX files, custom classes, unsafe code, and fixed sizes."""

import os
import re
import shutil

import custom_layers
import keras
import keras_models
import numpy as np
import onnx
import pytest
import tensorflow as tf

from tfmp.converters import convert, open_source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.converters.shared.tensors import TensorSpec


def assert_exports(source) -> None:
    assert check_export(export_onnx(source), source) < 1e-5


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "dense"
    keras_models.dense().export(folder, verbose=False)
    return folder


def test_a_keras_2_saved_model_with_optimizer_slots(zoo):
    source = open_source(zoo / "keyword_spotting_savedmodel")
    assert source.inputs == (TensorSpec("input_1", (None, 49, 10, 1), "float32"),)
    assert_exports(source)


@pytest.fixture(scope="module")
def fp32(tmp_path_factory):
    path = tmp_path_factory.mktemp("fp32") / "dense.onnx"
    return convert(keras_models.dense(), output=path, precision="fp32").path


@pytest.fixture
def two_signatures(tmp_path):
    class Pair(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")])
        def up(self, x):
            return {"up": x * self.scale}

        @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")])
        def down(self, x):
            return {"down": x / self.scale}

    pair = Pair()
    pair.scale = tf.Variable(3.0)
    tf.saved_model.save(pair, str(tmp_path), signatures={"up": pair.up, "down": pair.down})
    return tmp_path


def test_inputs_and_outputs_of_a_saved_model_are_in_the_order_of_their_names(tmp_path):
    names = [f"x_{index}" for index in range(12)]

    @tf.function(input_signature=[tf.TensorSpec((2,), name=name) for name in names])
    def serve(*inputs):
        return {f"y{name}": value + 1.0 for name, value in zip(names, inputs, strict=True)}

    tf.saved_model.save(tf.Module(), tmp_path / "saved", signatures=serve)
    source = open_source(tmp_path / "saved")
    assert [spec.name for spec in source.inputs] == names
    assert [spec.name for spec in source.outputs] == [f"y{name}" for name in names]


def test_signatures_are_chosen_by_name(two_signatures):
    for name, factor in (("up", 3.0), ("down", 1 / 3)):
        source = open_source(two_signatures, signature=name)
        assert [spec.name for spec in source.outputs] == [name]
        np.testing.assert_allclose(source.forward({"x": np.ones((1, 2), np.float32)})[name], factor)
        assert_exports(source)


@pytest.mark.parametrize(
    ("signature", "message"),
    [(None, "has no usual signature; its"), ("sideways", "no signature 'sideways'; its")],
)
def test_a_signature_that_is_not_there(two_signatures, signature, message):
    with pytest.raises(InputError, match=message) as caught:
        open_source(two_signatures, signature=signature)
    assert "'up'" in str(caught.value)
    assert "--signature" in str(caught.value)


def test_a_signature_of_something_that_has_none(fp32):
    for model in (keras_models.dense(), fp32):
        with pytest.raises(InputError, match="only a SavedModel folder has signatures"):
            open_source(model, signature="serve")


def test_a_damaged_saved_model(saved, tmp_path):
    copy = tmp_path / "cut"
    shutil.copytree(saved, copy)
    shutil.rmtree(copy / "variables")
    with pytest.raises(InputError, match=r"any matching files for variables/variables\)\. Copy"):
        open_source(copy)
    os.truncate(copy / "saved_model.pb", 999)
    with pytest.raises(InputError, match="TensorFlow cannot load this SavedModel"):
        open_source(copy)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(InputError, match=r"its saved_model\.pb is empty\. Save the model again"):
        open_source(tmp_path)


def test_a_tf_function():
    weight = tf.Variable(tf.eye(200) * 2.0)

    @tf.function(input_signature=[tf.TensorSpec((None, 200), tf.float32, name="x")])
    def double(x):
        return tf.matmul(x, weight)

    source = open_source(double)
    assert source.origin.name == "double"
    model = export_onnx(source)
    assert check_export(model, source) < 1e-6
    # Large constants leave the TensorFlow graph before tf2onnx sees it.
    (initializer,) = model.graph.initializers.values()
    assert initializer.const_value.nbytes == 200 * 200 * 4


def test_tf_functions_that_cannot_be_opened():
    @tf.function
    def loose(x):
        return x

    with pytest.raises(InputError, match="'loose' has no known input shapes"):
        open_source(loose)

    @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x")])
    def clumsy(x):
        return tf.matmul(x, tf.ones((5, 5)))

    with pytest.raises(ConversionError, match=r"'clumsy' cannot be traced.*Dimensions must be"):
        open_source(clumsy)


def test_operations_behind_calls_are_the_models_own():
    """A rewrite of the graph finds what a function calls; outputs keep their order."""

    @tf.function(input_signature=[tf.TensorSpec((None, 4, 5, 1), name="x")], autograph=False)
    def resized(x):
        half = tf.image.resize(x, (2, 3), method="bicubic")
        return {"z": half, "none": None, "a": x}

    source = open_source(resized)
    assert [spec.name for spec in source.outputs] == ["z", "a"]
    kinds = {operation.type for operation in source.graph.graph.get_operations()}
    assert "ResizeBicubic" in kinds
    x = np.random.default_rng(0).random((2, 4, 5, 1), dtype=np.float32)
    np.testing.assert_array_equal(source.forward({"x": x})["z"], resized(x)["z"])


def test_a_graph_of_tf1_is_wrapped_as_the_refusal_says(tmp_path, monkeypatch):
    with tf.Graph().as_default() as graph:
        rates = tf.compat.v1.placeholder("float32", name="rates")
        tf.identity(tf.compat.v1.Variable(2.0, use_resource=False) * rates, name="doubled")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(InputError, match=r"in a checkpoint\. Freeze both: .*names=doubled`"):
        open_source(path)
    frozen = graph.as_graph_def()
    frozen.node[2].CopyFrom(frozen.node[1])
    frozen.node[2].name = "Variable"
    path.write_bytes(frozen.SerializeToString())  # assignments stay, as some tools leave them
    with pytest.raises(InputError) as refused:
        open_source(path)
    names: dict = {"tf": tf}
    exec(re.search(r"`(outputs = .*)`", str(refused.value))[1], names)
    with pytest.raises(InputError, match="--input-shape rates=SIZES"):
        open_source(names["model"])
    source = open_source(names["model"], input_shapes={"rates": (None, 2)})
    (received,) = source.forward({"rates": np.ones((1, 2), np.float32)}).values()
    assert received.tolist() == [[2.0, 2.0]]
    assert convert(source).path.is_file()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (tf.RaggedTensorSpec((None, None), tf.float32), r"a ragged tensor.*from_tensor"),
        (tf.SparseTensorSpec((None, 3), tf.float32), r"a sparse tensor.*from_dense"),
    ],
)
def test_a_tf_function_of_tensors_that_are_not_dense(spec, message):
    @tf.function(input_signature=[spec], autograph=False)
    def total(x):
        return x.values[:1]

    with pytest.raises(InputError, match=message):
        open_source(total)


def test_an_onnx_file_is_never_written_over_itself_nor_becomes_tflite(fp32):
    with pytest.raises(InputError, match="is the model itself"):
        convert(fp32, output=fp32, force=True)
    with pytest.raises(InputError, match=r"cannot become TFLite\. Convert the Keras"):
        convert(fp32, to="tflite")


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_custom_classes(tmp_path, suffix):
    path = tmp_path / f"custom{suffix}"
    custom_layers.build().save(path)
    with pytest.raises(InputError, match=r"uses '.*Doubling'.*--custom-objects"):
        open_source(path)
    source = open_source(path, custom_objects={"Doubling": custom_layers.Doubling})
    assert_exports(source)


def test_batch_and_shapes_are_pinned_in_the_file(tmp_path):
    model = keras_models.transformer()
    assert open_source(model, batch_size=2).inputs[0].shape == (2, None, 16)
    source = open_source(model, input_shapes={"tokens": (1, 8, 16)})
    assert source.outputs[0].shape == (1, 8, 4)
    path = convert(source, output=tmp_path / "pinned.onnx").path
    (value,) = onnx.load(path).graph.input
    assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [1, 8, 16]


def test_summands_are_broadcast_alike_for_one_sample_and_for_many():
    x = keras.Input((4, 4), name="x")
    row, column = keras.ops.sum(x, 1)[:, None, :], keras.ops.sum(x, 2)[:, :, None]
    model = keras.Model(x, {"square": x + column, "pairs": column + row})
    source, fixed = open_source(model), open_source(model, batch_size=1)
    batch = {"x": np.arange(16, dtype=np.float32).reshape(1, 4, 4)}
    expected = source.forward(batch)
    for traced in (fixed.graph, source.trace(1)):
        for name, value in zip(expected, traced(tf.constant(batch["x"])), strict=True):
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_shapes": {"tokens": (1, 8, 15)}}, r"cannot have shape \[1, 8, 15\]"),
        ({"input_shapes": {"tokens": (1, 16)}}, r"cannot have shape \[1, 16\]"),
        ({"input_shapes": {"tokens": (1, 0, 16)}}, "at least 1 for each axis"),
        ({"input_shapes": {"words": (1,)}}, "no such input. Name one of its inputs: tokens"),
        ({"batch_size": 2, "input_shapes": {"tokens": (1, 8, 16)}}, "size is 2. Give one"),
    ],
)
def test_shapes_that_contradict_the_model(options, message):
    with pytest.raises(InputError, match=message):
        open_source(keras_models.transformer(), **options)


def test_a_model_trained_under_cudnn_settings_is_left_as_it_was():
    model = keras_models.lstm()
    layer = next(layer for layer in model.layers if isinstance(layer, keras.layers.LSTM))
    before = layer.use_cudnn
    export_onnx(open_source(model))
    assert layer.use_cudnn == before
    assert "call" not in vars(layer)


def test_a_model_that_draws_numbers_is_told_of():
    @tf.function(input_signature=[tf.TensorSpec((None, 2))], autograph=False)
    def noisy(x):
        return x + tf.random.normal(tf.shape(x))

    (note,) = open_source(noisy).origin.notes
    assert "draws random numbers (RandomStandardNormal), which differ from run to run" in note
