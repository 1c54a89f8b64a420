"""What runtimes lack in FP16, and that a target decides which of it counts."""

import numpy as np
import onnx
import pytest
from onnx_graphs import half, parse

from tfmp.converters.onnx.fp16.gaps import (
    ANY,
    CPU,
    CUDA,
    GAPS,
    RUNTIMES,
    TARGETS,
    TENSORRT,
    WEBGPU,
    gap_of,
)
from tfmp.converters.onnx.graph.schema import BF16

SAMPLING = """
agraph (float[1, 2, 8, 8] x, float[1, 4, 4, 2] where) => (float[1, 2, 4, 4] y) {
    y = Exp(GridSample(Exp(x), where))
}
"""
REASON = (
    "ONNX Runtime's CUDA provider has a float32 kernel for GridSample and none for FP16, which "
    "would run on the CPU"
)


def kept(target: str) -> dict[str, str]:
    """Op type and reason of what stays in FP32."""
    _, report = half(parse(SAMPLING), target=target)
    return {island.op_type: island.reason for island in report.islands}


def test_a_node_without_an_fp16_cuda_kernel_stays_fp32_on_cuda_alone():
    assert kept(CUDA) == {"GridSample": REASON}
    for target in (ANY, CPU, TENSORRT, WEBGPU):
        assert kept(target) == {}


def test_what_stops_a_file_from_loading_counts_everywhere():
    for target in TARGETS:
        gap = gap_of("EyeLike", 18, target)
        assert gap is not None
        assert gap.describe() == "ONNX Runtime's CPU provider has no FP16 EyeLike"


ADDING = """
agraph (float[4] x, int64[3] at, float[3] more) => (float[4] y) {{
    y = Exp(ScatterElements<axis = 0{reduction}>(Exp(x), at, more))
}}
"""


@pytest.mark.parametrize(("reduction", "count"), [(', reduction = "add"', 2), ("", 3)])
def test_adding_to_elements_stays_fp32_where_writing_them_does_not(reduction, count):
    _, report = half(parse(ADDING.format(reduction=reduction)))
    assert report.half_nodes == count


def test_a_gap_that_a_later_opset_closed_is_none_there():
    assert gap_of("Clip", 11, CUDA) is not None
    assert gap_of("Clip", 12, CUDA) is None


POOLED = """
agraph (float[N, 2, 4, 4] x) => (float[N, 2, 2, 2] y)
<float[2, 2, 1, 1] w = {1, 2, 3, 4}> {
    y = Conv(MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(Conv(x, w)), w)
}
"""


@pytest.mark.parametrize(
    ("opset", "target", "kept"),
    [
        (22, "any", {"MaxPool": "ONNX Runtime's CUDA provider has no MaxPool for bfloat16"}),
        (22, "tensorrt", {}),
        (18, "tensorrt", {"Conv": "Conv of opset 18 is not defined for bfloat16"}),
    ],
)
def test_bfloat16_needs_a_schema_and_a_kernel_in_every_runtime(opset, target, kept):
    model, report = half(parse(POOLED, opset=opset), low=BF16, target=target)
    assert {one.op_type: one.reason for one in report.islands if one.op_type in kept} == kept
    assert len(kept) or not report.islands
    assert {i.data_type for i in model.graph.initializer} == {1 if "Conv" in kept else 16}


@pytest.mark.parametrize(("options", "stored"), [({}, 16), ({"keep_fp32": ["RNN"]}, 1)])
def test_weights_of_a_node_without_a_kernel_have_16_bits_and_those_kept_by_request_32(
    options, stored
):
    w, r = (np.random.default_rng(0).standard_normal((1, 16, size)) for size in (4, 16))
    text = """agraph (float[6, N, 4] x) => (float[6, 1, N, 16] y) {
        y = RNN<hidden_size = 16>(x, w, r)
    }"""
    model, _ = half(
        parse(text, opset=22, w=w.astype(np.float32), r=r.astype(np.float32)), low=BF16, **options
    )
    assert {one.data_type for one in model.graph.initializer} == {stored}


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: f"{gap.runtime}-{gap.op_type}")
def test_every_gap_is_an_exception_to_a_schema_that_allows_fp16(gap):
    """What ONNX itself does not allow needs no entry."""
    schema = onnx.defs.get_schema(gap.op_type, (gap.before or 24) - 1)
    allowed = {kind for c in schema.type_constraints for kind in c.allowed_type_strs}
    assert "tensor(float16)" in allowed
    assert gap.runtime in RUNTIMES
    assert len(gap.source) > 40
