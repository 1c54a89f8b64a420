"""What a file says about its own making."""

import json
from pathlib import Path

import corpus_onnx
import keras_models
import numpy as np
import onnx
from onnx_graphs import parse

from tfmp.converters import convert
from tfmp.converters.intake import open_source


def properties(path: Path) -> dict[str, str]:
    return {item.key: item.value for item in onnx.load(path).metadata_props}


def test_metadata_names_tool_source_precision_islands_and_constants(tmp_path: Path):
    source = open_source(keras_models.dense())
    artifact = convert(source, output=tmp_path / "m.onnx", keep_fp32=["Softmax"])
    written = properties(artifact.path)
    assert written["tfmp.version"].count(".") == 2
    assert written["tfmp.source_sha256"] == source.origin.sha256
    assert written["tfmp.precision"] == "fp16"
    islands = json.loads(written["tfmp.fp32_nodes"])
    assert {"kept by request (Softmax)"} <= {island["reason"] for island in islands}
    assert set(islands[0]) == {"node", "op", "layer", "reason"}
    assert isinstance(json.loads(written["tfmp.constants"]), list)


def test_nodes_that_were_quantized_take_no_room(tmp_path: Path):
    """Their names were a seventh of the file of a detector in int8."""
    graph = """
    agraph (float[N, 4] x) => (float[N, 4] y) <float scale = {0.1}, uint8 zero = {128}> {
        d = DequantizeLinear(QuantizeLinear(x, scale, zero), scale, zero)
        y = MatMul(Softmax(MatMul(d, w)), w)
    }
    """
    onnx.save(parse(graph, w=np.eye(4, dtype=np.float32)), tmp_path / "m.onnx")
    written = properties(convert(tmp_path / "m.onnx", output=tmp_path / "half.onnx").path)
    assert written["tfmp.precision"] == "fp16"
    assert json.loads(written["tfmp.fp32_nodes"]) == []


def test_a_float32_file_names_its_source_too(tmp_path: Path):
    source = open_source(keras_models.dense())
    artifact = convert(source, output=tmp_path / "m.onnx", precision="fp32")
    written = properties(artifact.path)
    assert written["tfmp.source_sha256"] == source.origin.sha256
    assert written["tfmp.precision"] == "fp32"
    assert "tfmp.fp32_nodes" not in written


def test_two_conversions_of_one_file_write_the_same_bytes(tmp_path: Path):
    # Of a Keras model too, in any process: test_deterministic_tf2onnx.py.
    onnx.save(corpus_onnx.shared_initializers(), tmp_path / "m.onnx")
    one, other = (convert(tmp_path / "m.onnx", output=tmp_path / f"{i}.onnx").path for i in "12")
    assert one.read_bytes() == other.read_bytes()
