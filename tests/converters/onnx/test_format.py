"""ONNX files that are something else already: FP16, or quantized."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse

from tfmp.converters import convert

FLOAT, HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
X = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half")
    weights = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    text = "agraph (float[N, 8] x) => (float[N, 8] y) { h = MatMul(x, w) y = Tanh(h) }"
    onnx.save(parse(text, w=weights), folder / "full.onnx")
    return convert(folder / "full.onnx", "onnx", folder / "half.onnx", fp16_io=True).path


@pytest.mark.parametrize("precision", ["fp16", "mixed", "fp32"])
def test_a_file_that_is_fp16_already(half: Path, precision: str, tmp_path: Path):
    data = X.astype(np.float16)
    artifact = convert(half, "onnx", tmp_path / "again.onnx", precision, data=data)
    graph = onnx.load(artifact.path).graph
    wide = precision == "fp32"
    assert {one.data_type for one in graph.initializer} == {FLOAT if wide else HALF}
    assert graph.input[0].type.tensor_type.elem_type == (FLOAT if wide else HALF)
    assert ("compute in FP32" if wide else "FP16 already") in artifact.notes[0]
    assert artifact.report.verdict == "PASS"
    assert artifact.known.remedy.startswith("Convert the float32 model")


QUANTIZED = """
agraph (float[N, 64] x) => (float[N, 64] y) {
    q, s, z = DynamicQuantizeLinear(x)
    h = MatMulInteger(q, w, z)
    f = Cast <to = 1> (h)
    t = Mul(s, c)
    p = Mul(f, t)
    r = Relu(p)
    y = MatMul(r, v)
}
"""


def test_sums_of_integers_are_never_fp16(tmp_path: Path):
    generator = np.random.default_rng(0)
    model = parse(
        QUANTIZED,
        w=generator.integers(-127, 127, (64, 4096)).astype(np.int8),
        c=np.float32(1e-3),
        v=generator.standard_normal((4096, 64)).astype(np.float32) / 64,
    )
    onnx.save(model, tmp_path / "quantized.onnx")
    x = np.abs(generator.standard_normal((100, 64))).astype(np.float32)
    path = tmp_path / "half.onnx"
    artifact = convert(tmp_path / "quantized.onnx", "onnx", path, data=x, fp16_edges=True)
    assert artifact.report.verdict == "PASS", artifact.report.candidates[0].reasons
    assert "the model is quantized" in artifact.notes[0]
    assert {one.data_type for one in onnx.load(path).graph.initializer} >= {HALF}
