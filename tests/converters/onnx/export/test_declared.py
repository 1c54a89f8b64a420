"""Sizes that a file declares against its operators: inner ones are taken back, outputs refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tfmp.converters import convert, open_source
from tfmp.converters.shared.errors import ConversionError


def product(path: Path, inner: int, outer: int) -> Path:
    def info(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 5], np.ones(20))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", 2, 4)],
        [info("y", 2, outer)],
        [weights],
        value_info=[info("m", 2, inner)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def test_a_false_inner_size_is_taken_back(tmp_path: Path):
    written = convert(product(tmp_path / "m.onnx", 7, 5), output=tmp_path / "out.onnx")
    (output,) = open_source(written.path).outputs
    assert output.shape == (2, 5)


def test_a_false_size_of_an_output_is_named(tmp_path: Path):
    path = product(tmp_path / "m.onnx", 5, 3)
    with pytest.raises(ConversionError, match=r"other shapes than it declares.*\(5\) vs \(3\)"):
        convert(path, output=tmp_path / "out.onnx")
