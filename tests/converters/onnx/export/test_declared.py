"""Sizes that a file declares against its operators: inner ones are taken back, outputs refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse

from tfmp.converters import convert, open_source
from tfmp.converters.shared.errors import ConversionError


def product(path: Path, inner: int, outer: int) -> Path:
    text = "agraph (float[2, 4] x) => (float[2, 5] y) { m = MatMul(x, w)  y = Relu(m) }"
    model = parse(text, opset=13, w=np.ones((4, 5), np.float32))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("m", 1, (2, inner)))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = outer
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
