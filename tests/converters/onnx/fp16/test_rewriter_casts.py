"""FP32 reaches through nodes that only move values, and no cast is made twice."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import half, parse, run, run_emulated


def casts(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Cast" for node in ir.from_proto(model).graph.all_nodes())


CHAIN = """
agraph (float[N, 4, 6] x) => (float[N, 24] y) <int64[2] flat = {0, 24}, int64[1] axis = {1}> {
    b = Reshape(Squeeze(Unsqueeze(Transpose <perm = [0, 2, 1]> (Exp(x)), axis), axis), flat)
    y = Sigmoid(Tanh(b))
}
"""


@pytest.mark.parametrize(
    ("kept", "count"), [(["Exp", "Tanh"], 2), (["Exp"], 2), (["Tanh"], 4), ([], 2)]
)
def test_fp32_reaches_through_chains_of_nodes_that_only_move_values(kept: list[str], count: int):
    model = parse(CHAIN)
    converted, _ = half(model, keep_fp32=kept)
    # The output, and once for each time that the precision of what is computed changes.
    assert casts(converted) == count
    x = np.random.default_rng(0).standard_normal((2, 4, 6)).astype(np.float32)
    np.testing.assert_allclose(
        run_emulated(converted, {"x": x})["y"], run(model, {"x": x})["y"], rtol=2e-3
    )


def test_a_value_is_cast_once_for_all_its_readers():
    model = parse("agraph (float[N, 4] x) => (float[N, 4] y) { y = Add(Exp(x), Neg(x)) }")
    assert casts(half(model)[0]) == 2  # the input and the output
