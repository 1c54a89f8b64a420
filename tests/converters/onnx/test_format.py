"""ONNX files that are something else already (FP16, quantized), and BF16 files."""

import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse

from tfmp.converters import DriftBudget, convert, validate
from tfmp.converters.shared.errors import InputError

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
    artifact = convert(shutil.copy(half, tmp_path), "onnx", None, precision, data=data)
    graph = onnx.load(artifact.path).graph
    wide = precision == "fp32"
    assert artifact.path.name == ("half.fp32.onnx" if wide else "half.fp16.onnx")
    assert {one.data_type for one in graph.initializer} == {FLOAT if wide else HALF}
    assert graph.input[0].type.tensor_type.elem_type == (FLOAT if wide else HALF)
    assert ("compute in FP32" if wide else "FP16 already") in artifact.notes[0]
    assert artifact.report.verdict == "PASS"
    assert artifact.known.remedy.startswith("Convert the float32 model")
    assert artifact.report.reference.runner.fp16 == "weights-only"


def test_a_remedy_keeps_what_a_file_tells_of_its_conversion(tmp_path: Path):
    weights = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    text = "agraph (float[N, 8] x) => (float[N, 8] y) { h = MatMul(x, w) y = Exp(h) }"
    onnx.save(parse(text, w=weights), full := tmp_path / "full.onnx")
    file = convert(full, "onnx", tmp_path / "m.onnx", target="webgpu", fp16_io=True).path
    (found,) = validate(full, file, X, budget=DriftBudget(rel_l2=1e-3)).candidates
    assert found.remedy_flags == "--target webgpu --precision mixed"


QUANTIZED = """
agraph (float[N, 64] x) => (float[N, 64] y) {
    q, s, z = DynamicQuantizeLinear(x)
    r = Relu(Mul(Cast <to = 1> (MatMulInteger(q, w, z)), Mul(s, c)))
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


TREE = onnx.helper.make_node(
    "TreeEnsembleRegressor",
    ["x"],
    ["y"],
    domain="ai.onnx.ml",
    n_targets=1,
    **{f"nodes_{name}": [0, 0, 0] for name in ("treeids", "featureids")},
    nodes_nodeids=[0, 1, 2],
    nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_values=[0.1, 0.0, 0.0],
    nodes_truenodeids=[1, 0, 0],
    nodes_falsenodeids=[2, 0, 0],
    **{f"target_{name}": [0, 0] for name in ("treeids", "ids")},
    target_nodeids=[1, 2],
    target_weights=[1.0, 70000.0],
)


def quantized_ends() -> onnx.ModelProto:
    """A product of integers, with its scale beside the file."""
    text = """agraph (float[N, 8] x) => (float[N, 8] y) {
        q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  v = DequantizeLinear(w, c, z)
        h = MatMul(d, v)  p = QuantizeLinear(h, s, z)  y = DequantizeLinear(p, s, z) }"""
    weights = np.random.default_rng(0).integers(-127, 127, (8, 8)).astype(np.int8)
    return parse(text, w=weights, s=np.float32(0.1), c=np.float32(0.01), z=np.int8(0))


def one_tree() -> onnx.ModelProto:
    info = onnx.helper.make_tensor_value_info
    x, y = info("x", FLOAT, ["N", 8]), info("y", FLOAT, ["N", 1])
    opsets = [onnx.helper.make_opsetid(*one) for one in (("", 11), ("ai.onnx.ml", 1))]
    graph = onnx.helper.make_graph([TREE], "tree", [x], [y])
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=6)


@pytest.mark.parametrize("make", [one_tree, quantized_ends])
def test_a_file_without_fp16_stays_as_it_is(make, tmp_path: Path):
    path, other = tmp_path / "a.onnx", tmp_path / "there" / "b.onnx"
    onnx.save(make(), path)
    artifact = convert(path, "onnx", other, data=X)
    assert "nothing in this file computes in FP16" in artifact.notes
    assert (artifact.precision, artifact.report.verdict) == ("fp32", "PASS")
    assert other.read_bytes() == path.read_bytes()
    assert validate(path, other, X[:3]).verdict == "PASS"
    assert convert(path, "onnx", other, opset=18, force=True).path.read_bytes() != path.read_bytes()


def test_fp16_io_says_what_it_takes_away(tmp_path: Path):
    text = "agraph (float[N, 8] x) => (float[N, 8] y) { h = MatMul(x, w)  y = Add(h, b) }"
    eye = np.eye(8, dtype=np.float32)
    path, other = tmp_path / "kelvin.onnx", tmp_path / "half.onnx"
    onnx.save(parse(text, w=eye, b=290 * eye[0] + 290), path)
    for io in (True, False):
        notes = convert(path, "onnx", other, force=True, fp16_io=io).notes
        assert any("fp16_io (--fp16-io) rounds" in note for note in notes) is io


def test_weights_are_in_fp16_where_the_notes_say_so_though_nothing_computes_in_it(tmp_path: Path):
    text = "agraph (float[N, 8] x) => (float[N, 8] y) { h = MatMul(x, w)  y = Softplus(h) }"
    onnx.save(parse(text, w=np.eye(8, dtype=np.float32) + X[:8] / 8), tmp_path / "far.onnx")
    mixed = convert(tmp_path / "far.onnx", "onnx", tmp_path / "b.onnx", "mixed", data=1e6 * X)
    assert any("1 with their weights stored in FP16" in note for note in mixed.notes)
    assert [one.data_type for one in onnx.load(mixed.path).graph.initializer] == [HALF]


@pytest.fixture(scope="module")
def past_fp16(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hidden values of 1e8, and a mask of FLT_MAX before a softmax."""
    path = tmp_path_factory.mktemp("wide") / "wide.onnx"
    text = """agraph (float[N, 8] x) => (float[N, 8] y) {
        y = Softmax(Where(Less(x, zero), mask, MatMul(MatMul(x, w), v)))
    }"""
    eye = np.eye(8, dtype=np.float32)
    mask, zero = np.float32(-3.4028235e38), np.float32(0)
    onnx.save(parse(text, w=1e8 * eye, v=2e-8 * eye, mask=mask, zero=zero), path)
    return path


def test_a_bf16_file_has_the_range_of_float32_and_is_judged_by_emulation(past_fp16, tmp_path):
    options = {"data": X, "keep_fp32": ["Less"], "fp16_edges": True}
    narrow = convert(past_fp16, "onnx", tmp_path / "narrow.onnx", **options)
    assert narrow.size_bytes > 0
    wide = convert(past_fp16, "onnx", tmp_path / "wide.onnx", "bf16", **options)
    candidate = wide.report.candidates[0]
    assert wide.precision == "bf16"
    assert (candidate.runner.name, candidate.runner.fp16) == ("emulated BF16", "emulated")
    assert "every BF16 tensor" in candidate.runner.details["profile"]
    assert not candidate.outputs[0].nonfinite
    assert candidate.outputs[0].rel_l2 < 0.01
    assert any("compute capability 8.0" in note for note in wide.notes)
    assert any("its mask constant became -3.38953e+38" in note for note in wide.notes)
    # What it says of itself, and what nobody can do with it on a CPU.
    loaded = onnx.load(wide.path)
    told = {item.key: item.value for item in loaded.metadata_props}
    assert told["tfmp.precision"] == "bf16"
    assert loaded.opset_import[0].version == 22
    with pytest.raises(InputError, match="computes in bfloat16, for which ONNX Runtime's CPU"):
        validate(wide.path, wide.path, X)
    found = validate(past_fp16, wide.path, X, emulate="webgpu", latency=True).candidates[0]
    assert "WebGPU provider has no kernels" in " ".join(found.reasons)


@pytest.mark.parametrize(
    ("to", "options", "told"),
    [
        ("tflite", {}, "precision bf16 (--precision) is for ONNX files: TFLite runtimes compute"),
        ("onnx", {"fp16_io": True}, "fp16_io (--fp16-io) makes float16 inputs and outputs"),
        ("onnx", {"target": "webgpu"}, "WebGPU provider has no kernels for bfloat16"),
    ],
)
def test_bf16_is_refused_where_no_file_can_have_it(past_fp16, to, options, told, tmp_path):
    with pytest.raises(InputError, match=re.escape(told)):
        convert(past_fp16, to, tmp_path / f"a.{to}", "bf16", **options)
    assert not list(tmp_path.iterdir())
