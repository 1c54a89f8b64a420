"""Files that ONNX Runtime's optimizer does not survive are found, and those alone."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx_graphs import parse

from tfmp.converters.onnx.graph.faults import fault_of


@pytest.mark.parametrize(
    ("body", "dtype", "found"),
    [
        ("t = Transpose <perm = [1, 0, 2]> (x)  y = MatMul(t, w)", "float16", True),
        ("t = Transpose <perm = [1, 2, 0]> (x)  y = MatMul(w, t)", "float16", True),
        (
            "t = Transpose <perm = [1, 0, 2]> (x)  c = Cast <to = 1> (t)  k = Cast <to = 1> (w)"
            "  p = MatMul(c, k)  y = Cast <to = 10> (p)",
            "float16",
            True,
        ),
        ("t = Transpose <perm = [0, 2, 1]> (x)  y = MatMul(t, w)", "float16", False),
        ("t = Transpose <perm = [1, 0, 2]> (x)  r = Relu(t)  y = MatMul(r, w)", "float16", False),
        ("t = Transpose <perm = [1, 0, 2]> (x)  y = MatMul(t, w)", "float", False),
    ],
)
def test_the_fault_is_told_where_it_is(body: str, dtype: str, found: bool):
    weights = np.ones((8, 8), np.float16 if dtype == "float16" else np.float32)
    model = parse(f"g ({dtype}[A, 8, 8] x) => ({dtype}[B, C, D] y) {{ {body} }}", w=weights)
    told = fault_of(ir.from_proto(model))
    assert bool(told) == found
    assert not told or "disabled_optimizers=['MatmulTransposeFusion']" in told
