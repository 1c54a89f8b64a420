"""Weights of exported files: those of old files, and those that only arithmetic on shapes reads."""

from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from keras import layers
from onnx_graphs import parse
from tf2onnx import tf_loader

from tfmp.converters import convert

HALF = onnx.TensorProto.FLOAT16


@pytest.mark.parametrize(
    ("version", "listed", "inside"),
    [
        pytest.param(3, ["w", "v"], True, id="before IR 4"),
        pytest.param(4, ["w", "v"], True, id="all of PyTorch 1.2"),
        # From IR 4 on it is a default that a caller may override.
        pytest.param(4, ["w"], False, id="one of two"),
    ],
)
def test_weights_that_a_file_lists_as_inputs_are_constants(
    version: int, listed: list[str], inside: bool, tmp_path: Path
):
    model = parse(
        "agraph (float[N, 8] x) => (float[N, 8] y) { h = MatMul(x, w)  y = MatMul(h, v) }",
        w=np.eye(8, dtype=np.float32),
        v=np.eye(8, dtype=np.float32),
    )
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [8, 8]) for name in listed
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
