"""The options that ONNX Runtime's CUDA provider gets for a file."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse

from tfmp.converters import convert
from tfmp.converters.runners.gpu_session import CUDA, provider_options
from tfmp.converters.shared.errors import RunnerError

SUM = """
agraph (float[N, 4, 8] x) => (float[N, 4, 8] y) {
    a = MatMul(x, w)
    r = FIRST
    n = LayerNormalization <axis = -1> (r, g)
    y = MatMul(n, w)
}
"""
STRICT = {"enable_skip_layer_norm_strict_mode": "1"}


def options(folder: Path, first: str = "Add(a, a)", **asked) -> dict[str, str]:
    ones = np.ones(8, np.float32)
    model = parse(SUM.replace("FIRST", first), g=ones, w=np.diag(ones))
    model.graph.node[2].name = "norm"
    onnx.save(model, folder / "model.onnx")
    made = convert(folder / "model.onnx", output=folder / "half.onnx", force=True, **asked)
    return provider_options(made.path, CUDA)


def test_a_file_that_adds_and_normalizes_in_fp16_asks_for_strict_normalization(tmp_path):
    assert options(tmp_path) == {**STRICT, "use_tf32": "0"}
    assert options(tmp_path, target="ort-cuda") == {**STRICT, "use_tf32": "0"}
    assert provider_options(tmp_path / "half.onnx", "CPUExecutionProvider") == {}


def test_other_files_ask_for_nothing(tmp_path):
    assert options(tmp_path, first="Exp(a)") == {"use_tf32": "0"}
    assert options(tmp_path, keep_fp32=["norm"]) == {"use_tf32": "0"}
    assert options(tmp_path, target="webgpu") == {"use_tf32": "0"}
    assert options(tmp_path, precision="fp32") == {"use_tf32": "0"}


def test_options_that_cannot_be_read_are_an_error_of_the_file(tmp_path):
    options(tmp_path)
    model = onnx.load(tmp_path / "half.onnx")
    next(e for e in model.metadata_props if e.key == "tfmp.session_options").value = "[1"
    onnx.save(model, tmp_path / "half.onnx")
    with pytest.raises(RunnerError, match=r"half\.onnx: is not a usable ONNX model"):
        provider_options(tmp_path / "half.onnx", CUDA)
