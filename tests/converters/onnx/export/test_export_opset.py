"""ONNX files of an opset from before the rewrites for FP16."""

from pathlib import Path

import corpus_onnx
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import parse, run

from tfmp.converters import convert
from tfmp.converters.onnx.export.export import with_rewrites

# A layer normalization as exporters wrote it before opset 13, of values whose squares overflow.
OLD = """
agraph (float[N, 8, 16] x) => (float[N, 16] y) <float two = {2}, float eps = {1e-6}> {
    mean = ReduceMean <axes = [2]> (x)
    d = Sub(x, mean)
    sq = Pow(d, two)
    var = ReduceMean <axes = [2]> (sq)
    safe = Add(var, eps)
    std = Sqrt(safe)
    n = Div(d, std)
    picked = Slice(n, starts, ends)
    y = Squeeze <axes = [1]> (picked)
}
"""
ARRAYS = {"starts": np.array([0, 2]), "ends": np.array([2**31, 3])}


def test_a_file_of_an_old_opset_is_rewritten_for_fp16(tmp_path: Path):
    model = parse(OLD, opset=11, **ARRAYS)
    (tmp_path / "old.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).normal(0, 900, (64, 8, 16)).astype(np.float32)
    artifact = convert(tmp_path / "old.onnx", output=tmp_path / "new.onnx", data=x)
    assert artifact.report is not None
    assert artifact.report.candidates[0].outputs[0].rel_l2 < 1e-3
    assert any("became LayerNormalization" in note for note in artifact.known.notes)
    kept = convert(tmp_path / "old.onnx", output=tmp_path / "fp32.onnx", precision="fp32")
    assert onnx.load(kept.path).opset_import[0].version == 11


def test_only_old_opsets_change_and_results_do_not():
    x = np.random.default_rng(1).normal(0, 9, (3, 8, 16)).astype(np.float32)
    model = parse(OLD, opset=11, **ARRAYS)
    raised = ir.to_proto(with_rewrites(ir.from_proto(model)))
    assert raised.opset_import[0].version == 18
    np.testing.assert_allclose(run(raised, {"x": x})["y"], run(model, {"x": x})["y"], rtol=1e-5)
    recent = ir.from_proto(parse("agraph (float[N] x) => (float[N] y) { y = Neg(x) }", opset=13))
    assert with_rewrites(recent) is recent


def test_operators_of_other_domains_stay_as_they_are():
    model = parse(
        "agraph (float[N, 4] x) => (float[N, 4] y) { h = Neg(x) y = com.microsoft.FastGelu(h) }",
        ', "com.microsoft": 1',
        opset=11,
    )
    raised = ir.to_proto(with_rewrites(ir.from_proto(model)))
    assert [opset.version for opset in raised.opset_import if not opset.domain] == [18]
    x = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(raised, {"x": x})["y"], run(model, {"x": x})["y"])


def test_what_no_rule_brings_to_a_newer_opset_stays(monkeypatch: pytest.MonkeyPatch):
    def no_rule(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
        raise RuntimeError("No Adapter From Version $11 for Scan")

    monkeypatch.setattr(onnx.version_converter, "convert_version", no_rule)
    model = ir.from_proto(parse(OLD, opset=11, **ARRAYS))
    assert with_rewrites(model) is model


def test_functions_of_a_model_survive_another_opset(tmp_path: Path):
    model = corpus_onnx.functions()
    onnx.save(model, tmp_path / "calls.onnx")
    newer = convert(tmp_path / "calls.onnx", "onnx", tmp_path / "new.onnx", "fp32", opset=22)
    batch = {
        value.name: np.ones([one.dim_value or 2 for one in value.type.tensor_type.shape.dim], "f")
        for value in model.graph.input
    }
    expected, received = run(model, batch), run(onnx.load(newer.path), batch)
    for name, value in expected.items():
        np.testing.assert_allclose(received[name], value, rtol=1e-5)
