"""No more casts than ONNX Runtime's own FP16 pass inserts."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import half, parse, run, run_emulated

from tfmp.converters.onnx.fp16.rewriter import to_fp16


def casts(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Cast" for node in ir.from_proto(model).graph.all_nodes())


@pytest.mark.filterwarnings("ignore")  # the peer warns of every constant that it clamps
@pytest.mark.parametrize("name", ["conv", "masked_lstm", "variance_overflow", "transformer"])
def test_no_more_casts_than_the_peer(exported, name: str):
    from onnxruntime.transformers import float16

    _, model = exported(name)
    # The peer clamps an epsilon of 1e-12 to 1e-7; here its Add stays FP32, between two casts.
    for value in model.graph.initializers.values():
        array = value.const_value.numpy()
        if array.size == 1 and 0 < array.item() < 1e-7:
            value.const_value = ir.tensor(np.full_like(array, 1e-6), name=value.name)
    peer = float16.convert_float_to_float16(ir.to_proto(model), keep_io_types=True)
    ours, _ = to_fp16(model)
    assert casts(ir.to_proto(ours)) <= casts(peer)


CHAIN = """
agraph (float[N, 4, 6] x) => (float[N, 24] y) <int64[2] flat = {0, 24}, int64[1] axis = {1}> {
    a = Exp(x)
    moved = Transpose <perm = [0, 2, 1]> (a)
    more = Unsqueeze(moved, axis)
    less = Squeeze(more, axis)
    b = Reshape(less, flat)
    c = Tanh(b)
    y = Sigmoid(c)
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
