"""The tail of a probability is no difference; that of another output is one."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx_graphs import parse

from tfmp.converters.onnx.export.tails import differs_in_tails


@pytest.mark.parametrize(
    ("activation", "off", "tail"),
    [
        ("Sigmoid", 9e-7, True),
        ("Softmax", 9e-7, True),
        ("Sigmoid", 2e-6, False),
        ("Tanh", 1e-9, False),
    ],
)
def test_tails(activation: str, off: float, tail: bool):
    body = f"h = {activation}(x) y = Transpose <perm = [1, 0]> (h)"
    model = parse(f"agraph (float[2, 3] x) => (float[3, 2] y) {{ {body} }}")
    expected = np.full((3, 2), 1e-9, np.float32)
    received = expected + np.float32(off)
    assert differs_in_tails(ir.from_proto(model), "y", expected, received) == tail
