"""Keras to float32 ONNX: right on every kind of model, and loud where it is not."""

from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras import layers
from onnx_graphs import parse
from own_layer import Own
from tf2onnx import tf_loader

from tfmp.converters import convert
from tfmp.converters.intake import open_source, probing
from tfmp.converters.onnx.export import export
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.onnx.export.freeze import freeze
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import TensorSpec


def test_signature_survives(exported):
    source, model = exported("two_towers")

    def specs(values) -> list[TensorSpec]:
        return [
            TensorSpec(
                v.name,
                tuple(size if isinstance(size, int) else None for size in v.shape),
                v.dtype.numpy().name,
            )
            for v in values
        ]

    assert specs(model.graph.inputs) == list(source.inputs)
    assert specs(model.graph.outputs) == list(source.outputs)


def test_an_input_that_nothing_reads_stays_in_the_signature():
    used, unused = keras.Input((2,), name="used"), keras.Input((3,), name="unused")
    model = keras.Model([used, unused], keras.layers.Dense(1)(used))
    exported = export_onnx(open_source(model))
    assert [value.name for value in exported.graph.inputs] == ["used", "unused"]


def test_an_output_that_is_an_input_and_one_given_twice():
    x = keras.Input((2,), name="x")
    y = keras.layers.Dense(2, name="y")(x)
    source = open_source(keras.Model(x, {"same": x, "one": y, "two": y}))
    model = export_onnx(source)
    assert [value.name for value in model.graph.outputs] == ["one", "same", "two"]
    assert check_export(model, source) < 1e-6


def test_batch_normalization_is_folded_into_convolutions(exported):
    kinds = [node.op_type for node in exported("conv")[1].graph]
    assert "Mul" not in kinds
    assert "BatchNormalization" not in kinds


def test_large_weights_travel_beside_the_graph():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((512,)), keras.layers.Dense(512, use_bias=False, name="wide")], name="big"
    )
    source = open_source(model)
    traced = freeze(source)
    assert traced.graph_def.ByteSize() < 10_000
    (weight,) = export_onnx(source).graph.initializers.values()
    assert weight.name == "big/wide/kernel"
    np.testing.assert_array_equal(weight.const_value.numpy(), model.layers[0].kernel)


def test_so_do_those_of_saved_models_and_functions(tmp_path):
    keras.utils.set_random_seed(0)
    kernel = tf.Variable(tf.random.stateless_normal((256, 256), seed=(0, 1)) / 16, name="kernel")

    @tf.function(input_signature=[tf.TensorSpec((2, 256), name="x")])
    def twice(x):
        x = tf.tanh(tf.matmul(x, kernel))
        return {"y": x if tf.reduce_sum(x) > 0 else tf.matmul(x, kernel)}

    module = tf.Module()
    module.twice, module.kernel = twice, kernel
    tf.saved_model.save(module, tmp_path / "saved", signatures={"twice": twice})
    for model in (tmp_path / "saved", twice):
        source = open_source(model)
        frozen = freeze(source)
        assert frozen.graph_def.ByteSize() < 20_000
        np.testing.assert_array_equal(frozen.weights["kernel"], kernel)
        assert check_export(export_onnx(source), source) < 1e-6


@pytest.mark.parametrize(
    ("layer", "op"),
    [
        (keras.layers.Bidirectional(keras.layers.LSTM(160)), "LSTM"),
        (keras.layers.LSTM(320, stateful=True), "LSTM"),  # 80 KiB a state
        (keras.layers.GRU(160), "Loop"),
    ],
)
def test_recurrent_layers_with_large_kernels(layer, op):
    keras.utils.set_random_seed(0)
    steps = keras.Input(batch_shape=(64, 3, 8))
    source = open_source(keras.Model(steps, layer(steps)))
    exported = export_onnx(source)
    assert op in [node.op_type for node in exported.graph]
    assert check_export(exported, source) < 1e-5


def test_random_numbers_in_inference_are_refused_with_what_to_do():
    noise = Own(
        lambda mean: mean + keras.random.normal(keras.ops.shape(mean), seed=1), name="noise"
    )
    x = keras.Input((2,), name="x")
    source = open_source(keras.Model(x, noise(x)))
    with pytest.raises(ConversionError, match=r"in noise, which draws.*random numbers as an inp"):
        export_onnx(source)


def test_a_node_that_tf2onnx_cannot_convert_is_told_by_op_and_layer():
    x = keras.Input((None,), name="x")
    source = open_source(keras.Model(x, Own(lambda x: keras.ops.rfft(x)[0], name="spectrum")(x)))
    with pytest.raises(ConversionError, match=r"\(RFFT in spectrum; .*--input-shape") as caught:
        export_onnx(source)
    assert "OP=" not in str(caught.value)


def chaotic() -> keras.Model:
    """A model that doubles the distance of neighbouring numbers in each of its forty steps."""
    x = keras.Input((8,), name="x")
    y = keras.ops.sigmoid(x)
    for _ in range(40):
        y = 3.99 * y * (1 - y)
    return keras.Model(x, keras.layers.Identity(name="y")(y))


def test_an_output_that_is_nothing_but_rounding_is_held_against_float64(monkeypatch):
    source = open_source(chaotic())
    model = export_onnx(source)
    # Keras and ONNX Runtime round each step alike here: let the one take another way.
    exact = export.open_once(model)
    monkeypatch.setattr(
        export,
        "open_once",
        lambda _: lambda names, batch: exact(names, {"x": batch["x"] * np.float32(1 + 1e-6)}),
    )
    assert check_export(model, source) > 0.1
    monkeypatch.setattr(export, "open_once", lambda _: lambda names, batch: [batch["x"] * 9])
    with pytest.raises(ConversionError, match="output 'y' of the ONNX export differs"):
        check_export(model, source)


def test_an_export_is_not_refused_over_the_tail_of_a_sigmoid(monkeypatch):
    x = keras.Input((3,), name="x")
    low = keras.ops.sigmoid(x - 14.7)  # near 4e-7
    source = open_source(keras.Model(x, keras.layers.Identity(name="y")(low)))
    model = export_onnx(source)

    def off_by(share):
        def run(names, batch):
            tails = 1 / (1 + np.exp(14.7 - batch["x"].astype(np.float64)))
            return [(tails * (1 + share)).astype(np.float32)]

        monkeypatch.setattr(export, "open_once", lambda _: run)

    off_by(2.5e-4)
    assert check_export(model, source) == pytest.approx(2.5e-4, rel=0.05)
    for share, told in ((10.0, "report the model"), (np.inf, "Take log_sigmoid")):
        off_by(share)
        with pytest.raises(ConversionError, match=f"output 'y' of the ONNX export differs.*{told}"):
            check_export(model, source)


@pytest.mark.parametrize(
    "added",
    [
        lambda x: tf.reshape(tf.reduce_sum(x), (1, 1, 1)),
        lambda x: tf.ones((3, 2, 4)),
        lambda x: tf.constant([[3.0]]) * x,
        lambda x: tf.constant([[[3.0]]]) * x,
    ],
)
def test_sums_of_a_product_and_operands_of_any_rank(added):
    """tf2onnx's Gemm has a place for fewer of them than TensorFlow's addition."""
    kernel = tf.ones((4, 4))
    function = tf.function(
        lambda x: tf.constant([[2.0]]) * tf.matmul(x, kernel) + added(x),
        input_signature=[tf.TensorSpec((2, 4))],
    )
    source = open_source(function)
    check_export(export_onnx(source), source)


@pytest.mark.parametrize(
    ("function", "dtype", "op"),
    [
        (lambda x: tf.raw_ops.PopulationCount(x=x), "int32", "PopulationCount"),
        (lambda x: tf.linalg.svd(x, compute_uv=False), "float32", "Svd"),  # TFLite has SVDF
    ],
)
def test_an_op_that_no_format_has_is_refused_without_the_other(function, dtype, op):
    spec = tf.TensorSpec((2, 2), dtype)
    traced = tf.function(lambda x: function(x), input_signature=[spec], autograph=False)
    with pytest.raises(ConversionError, match=rf"{op}\. Replace the layer [\w ]+\.$"):
        export_onnx(open_source(traced))


def test_a_window_that_no_made_up_input_fills_asks_for_sizes(monkeypatch):
    monkeypatch.setattr(probing, "_SIGNAL_SIZES", ())
    sound = keras.Input((None,), name="sound")
    power = keras.layers.Lambda(
        lambda x: tf.reduce_mean(tf.abs(tf.signal.stft(x, 400, 200)), (1, 2)), output_shape=()
    )
    model = keras.Model(sound, power(sound))
    source = open_source(model)
    with pytest.raises(
        ConversionError, match=r"is NaN for .*--data FILE.*--input-shape sound=SIZES"
    ):
        check_export(export_onnx(source), source)
    source = open_source(model, input_shapes={"sound": [1, 800]})  # the way that is told
    assert check_export(export_onnx(source), source) < 1e-5


def test_a_column_that_becomes_a_row_keeps_the_number_of_samples():
    """As in graph attention; tf2onnx merged two Reshapes, and took another axis for the samples."""
    x = keras.Input((10, 12), name="x")
    column = keras.layers.Dense(1)(x)
    pairs = column + keras.ops.transpose(keras.layers.Dense(1)(x), (0, 2, 1))
    source = open_source(keras.Model(x, {"pairs": pairs}))
    assert check_export(export_onnx(source), source) < 1e-6


HALF = onnx.TensorProto.FLOAT16


@pytest.mark.parametrize(
    ("version", "listed", "inside"),
    [
        pytest.param(3, ["w", "v", "c"], True, id="before IR 4"),
        pytest.param(4, ["w", "v", "c"], True, id="all of PyTorch 1.2"),
        pytest.param(6, ["w", "v"], True, id="all that a simplifier left"),
        # From IR 4 on it is a default that a caller may override.
        pytest.param(4, ["w"], False, id="one of two"),
    ],
)
def test_weights_that_a_file_lists_as_inputs_are_constants(
    version: int, listed: list[str], inside: bool, tmp_path: Path
):
    model = parse(
        "agraph (float[N, 8] x) => (float[N, 8] y)"
        "{ h = MatMul(x, w)  s = Mul(h, c)  y = MatMul(s, v) }",
        w=np.eye(8, dtype=np.float32),
        v=np.eye(8, dtype=np.float32),
        c=np.ones((1, 8), np.float32),
    )
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(one.name, onnx.TensorProto.FLOAT, one.dims)
        for one in model.graph.initializer
        if one.name in listed
    )
    model.ir_version = version
    model.opset_import[0].version = 9 if version == 3 else 18
    onnx.save(model, tmp_path / "model.onnx")
    written = onnx.load(convert(tmp_path / "model.onnx", "onnx", tmp_path / "half.onnx").path)
    assert [value.name for value in written.graph.input] == ["x", *([] if inside else listed)]
    kept = {one.name for one in written.graph.initializer if one.data_type != HALF}
    assert kept == (set() if inside else {"w"})


def test_no_weights_stay_for_the_sake_of_their_shapes(tmp_path: Path):
    ids = keras.Input((None,), dtype="int32")
    hidden = layers.Embedding(50, 32)(ids)
    hidden = layers.MultiHeadAttention(4, 8)(hidden, hidden)
    hidden = layers.EinsumDense("abc,cd->abd", output_shape=(None, 32))(hidden)
    artifact = convert(keras.Model(ids, layers.Dense(3)(hidden)), "onnx", tmp_path / "m.onnx")
    large = [one for one in onnx.load(artifact.path).graph.initializer if np.prod(one.dims) > 64]
    assert {one.data_type for one in large} == {HALF}


def test_grappler_makes_no_array_for_a_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It makes an array of zeros for each placeholder, and keeps the memory."""
    seen = []
    optimize = tf_loader.tf_optimize

    def watched(inputs, outputs, graph_def):
        seen.extend(node.name for node in graph_def.node if node.op == "Placeholder")
        return optimize(inputs, outputs, graph_def)

    monkeypatch.setattr(tf_loader, "tf_optimize", watched)
    x = keras.Input((512,), name="x")
    convert(keras.Model(x, layers.Dense(512)(x)), "onnx", tmp_path / "m.onnx")
    assert len(seen) == 1
