"""ONNX files from elsewhere."""

from pathlib import Path

import numpy as np
import onnx

from tfmp.converters.intake import open_source


def test_sizes_of_minus_one_vary(tmp_path: Path):
    """PaddlePaddle writes open sizes as -1."""

    def value(name: str) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [-1, 3])

    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["h"]), onnx.helper.make_node("Neg", ["h"], ["y"])],
        "paddle",
        [value("x")],
        [value("y")],
        value_info=[value("h")],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
    )
    onnx.save(model, tmp_path / "paddle.onnx")
    source = open_source(tmp_path / "paddle.onnx")
    assert [spec.shape for spec in (*source.inputs, *source.outputs)] == [(None, 3), (None, 3)]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(source.forward({"x": x})["y"], x)
    assert open_source(tmp_path / "paddle.onnx", batch_size=4).inputs[0].shape == (4, 3)
