"""Candidates are looked at before anything is run."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse

from tfmp.converters import validate
from tfmp.converters.comparison.trials import candidate_files
from tfmp.converters.shared.errors import InputError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.onnx", r"missing\.onnx: no such file\. Convert the model first"),
        ("folder.onnx", r"folder\.onnx: is a folder\. Name the converted file itself"),
        ("a\udcff.onnx", r"is not a name in UTF-8.*Rename it\."),
    ],
)
def test_what_is_no_converted_file_is_refused(name: str, message: str, tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(InputError, match=message):
        candidate_files(tmp_path / name)


# Squares of the sum pass FP16's range where CUDA's fused kernel holds them in FP16. A wrong weight
# is wrong in every kernel.
NORMALIZED = """
normalized (float[N, 4, 64] x) => (float[N, 4, 64] y)
<float big = {{500}}, float[1] gain = {{{gain}}}> {{
    xl = Cast<to = {low}>(x)
    bl = Cast<to = {low}>(big)
    gl = Cast<to = {low}>(gain)
    large = Mul(xl, bl)
    total = Add(large, xl)
    n = LayerNormalization<axis = -1>(total, scales)
    m = Mul(n, gl)
    y = Cast<to = 1>(m)
}}
"""


# TF32 has steps of 0.5 at 1,000, and FP16's are behind the difference.
COARSE = """
coarse (float[N, 4, 64] x) => (float[N, 4, 1] y)
<float far = {{1000}}, float[1] gain = {{{gain}}}> {{
    large = Add(x, far)
    scaled = Mul(signs, gain)
    sum = MatMul(large, scaled)
    low = Cast<to = {low}>(sum)
    turned = Neg(low)
    y = Cast<to = 1>(turned)
}}
"""
STRICT = "Set the CUDA provider's option enable_skip_layer_norm_strict_mode"


@pytest.mark.parametrize(
    ("graph", "gain", "way"),
    [
        (NORMALIZED, 1, STRICT),
        (NORMALIZED, 2, ""),
        (COARSE, 1, "Set the CUDA provider's option use_tf32 to 0"),
    ],
)
def test_a_way_to_run_the_file_is_told_where_it_passes_so(
    graph: str, gain: int, way: str, tmp_path: Path
):
    signs = np.tile(np.float32([1, -1]), 32)[:, None]
    for name, low, kind, own in (("full", 1, np.float32, 1), ("half", 10, np.float16, gain)):
        weights = {"scales": np.ones(64, kind), "signs": signs}
        used = {key: value for key, value in weights.items() if key in graph}
        onnx.save(parse(graph.format(low=low, gain=own), **used), tmp_path / f"{name}.onnx")
    data = np.random.default_rng(0).standard_normal((100, 4, 64)).astype(np.float32)
    report = validate(tmp_path / "full.onnx", tmp_path / "half.onnx", data)
    assert report.verdict == "FAIL"
    remedy = report.candidates[0].remedy
    assert remedy.startswith(way)
    assert remedy.endswith("emulated so, the first 32 samples pass") is bool(way)
