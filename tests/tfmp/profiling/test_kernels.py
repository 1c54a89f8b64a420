"""Kernel statistics: XProf's own table, what it misses on newer cards, and kernels by layer.

recorded/kernel_stats.json is what XProf 2.24.2 made of a trace, written by hand, of Ampere kernels.
"""

import json
import os

import pytest
from repository import SUPPORT

from tfmp.profiling.kernels import (
    Kernel,
    kernel_use,
    layer_of,
    parse_kernel_stats,
    read_kernels,
    uses_tensor_cores,
)

RECORDED = (SUPPORT / "recorded" / "kernel_stats.json").read_bytes()
PATHS = ["/", "hidden", "stem", "stem/conv", "conv"]


def test_the_recorded_table():
    kernels = parse_kernel_stats(RECORDED)
    assert len(kernels) == 5
    assert kernels[0] == Kernel(
        name="sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64",
        operation="functional/stem/conv/convolution",
        seconds=pytest.approx(400e-6),
        tensor_core=True,
    )


def test_kernels_add_up_by_layer():
    use = kernel_use(parse_kernel_stats(RECORDED), PATHS)
    assert use.seconds == pytest.approx(974e-6)
    assert use.tensor_core_seconds == pytest.approx(760e-6)
    assert use.layers == {
        "stem/conv": pytest.approx(1.0),
        "hidden": pytest.approx(360 / (360 + 180 + 30)),
    }


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", True),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", True),
        ("sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tilesize64x64x64", True),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8", False),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>", False),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", True),
        ("ampere_sgemm_128x64_nn", False),
        ("loop_add_fusion_1688", False),
    ],
)
def test_kernels_that_run_on_tensor_cores(name, answer):
    assert uses_tensor_cores(name) is answer


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("functional/stem/conv/convolution", "stem/conv"),
        ("functional/conv/convolution", "conv"),
        ("jit(train_step)/transpose(jvp(hidden))/dot_general", "hidden"),
        ("functional/hidden_1/MatMul", None),
        ("", None),
    ],
)
def test_an_operation_belongs_to_the_innermost_layer(operation, path):
    assert layer_of(operation, PATHS) == path


def test_a_trace_of_pytorch_names_kernels_and_their_operations(tmp_path):
    """As PyTorch's profiler writes it: times in microseconds, numbers that lead to operations."""
    events = [
        ("cpu_op", "aten::mm", 40, 7),
        ("cpu_op", "aten::add", 20, 8),
        ("kernel", "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_nn", 30, 7),
        ("kernel", "ampere_sgemm_128x64_nn", 10, 7),
        ("kernel", "void at::native::elementwise_kernel<128, 2>", 5, 8),
    ]
    written = [
        {"ph": "X", "cat": cat, "name": name, "dur": dur, "args": {"External id": number}}
        for cat, name, dur, number in events
    ]
    trace = {"traceEvents": [{"ph": "M", "name": "process_name"}, *written]}
    (tmp_path / "host_1.2.pt.trace.json").write_text(json.dumps(trace))
    kernels = read_kernels(tmp_path)
    assert [kernel.operation for kernel in kernels] == ["aten::mm", "aten::mm", "aten::add"]
    use = kernel_use(kernels, PATHS)
    assert (use.seconds, use.tensor_core_seconds) == pytest.approx((45e-6, 30e-6))
    (tmp_path / "host_1.2.pt.trace.json").write_text("[]")
    with pytest.raises(ValueError, match=r"expects JSON with 'traceEvents', received b'\[\]'"):
        read_kernels(tmp_path)


@pytest.mark.parametrize(
    "text", ["not json", "[]", '{"cols": [{"id": "rank"}], "rows": [{"c": [{"v": 1}]}]}']
)
def test_what_is_no_table_of_kernels(text):
    with pytest.raises(ValueError, match=r"JSON table of kernels, received .* install xprof"):
        parse_kernel_stats(text)


def test_no_trace_no_kernels(tmp_path):
    assert read_kernels(tmp_path) is None
    assert kernel_use([], PATHS).seconds == 0.0


@pytest.fixture
def xprof(tmp_path, monkeypatch):
    """Puts a module in the place of XProf, which answers with the text it is given."""

    def install(answer):
        package = tmp_path / "xprof"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "convert.py").write_text(
            "class raw_to_tool_data:\n"
            "    @staticmethod\n"
            "    def xspace_to_tool_data(paths, tool, options):\n"
            "        assert tool == 'kernel_stats' and paths[0].endswith('new.xplane.pb')\n"
            f"        {answer}\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        traces = tmp_path / "traces" / "plugins"
        traces.mkdir(parents=True)
        for age, name in enumerate(("new", "old")):
            path = traces / f"{name}.xplane.pb"
            path.write_bytes(b"")
            os.utime(path, (1e9 - age, 1e9 - age))
        return tmp_path / "traces"

    return install


def test_the_latest_trace_is_read_by_xprof(xprof):
    table = SUPPORT / "recorded" / "kernel_stats.json"
    traces = xprof(f"return open({str(table)!r}, 'rb').read(), 'application/json'")
    assert read_kernels(traces) == parse_kernel_stats(RECORDED)


def test_a_trace_that_xprof_cannot_read_is_told(xprof):
    with pytest.raises(ValueError, match=r"xprof cannot read .*new\.xplane\.pb: OSError: broken"):
        read_kernels(xprof("raise OSError('broken')"))
