"""ONNX's experimental operators compute the same as operators of today."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tfmp.converters import convert

NODES = {
    "Affine": {"alpha": 2.0, "beta": 0.5},
    "Crop": {"border": [1, 2, 0, 3]},
    "ImageScaler": {"scale": 0.5, "bias": [-1.0, 0.0, 2.0]},
    "ParametricSoftplus": {"alpha": 1.7, "beta": 0.66},
    "ScaledTanh": {"alpha": 1.7, "beta": 0.66},
}


@pytest.mark.parametrize("kind", NODES)
def test_an_experimental_operator_is_converted(kind: str, tmp_path: Path):
    """ONNX Runtime, which has kernels of them, is the reference."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 3, None, None])
        for name in "xy"
    )
    nodes = [
        helper.make_node(kind, ["x"], ["z"], **NODES[kind]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    onnx.save(model, tmp_path / "old.onnx")
    data = np.random.default_rng(0).normal(size=(64, 3, 8, 8)).astype(np.float32)
    artifact = convert(tmp_path / "old.onnx", output=tmp_path / "out.onnx", data=data)
    assert artifact.report is not None
    assert artifact.report.candidates[0].outputs[0].rel_l2 < 1e-3
