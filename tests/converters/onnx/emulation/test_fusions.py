"""Fusions of ONNX Runtime, and the values that they do not write."""

import numpy as np
import onnx_ir as ir
from onnx_graphs import half, parse, run, run_emulated

from tfmp.converters.onnx.emulation.facts import Kind
from tfmp.converters.onnx.emulation.fusions import Fusion, predicted
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.onnx.fp16.rewriter import prepare

ORT = Profile.parse("ort-cuda")

SCALED = """
agraph (float[N, 8, 64] q, float[N, 8, 64] k) => (float[N, 8, 8] y) <float s = {0.001}> {
    t = Transpose <perm = [0, 2, 1]> (k)
    p = MatMul(q, t)
    m = Mul(p, s)
    y = Neg(m)
}
"""


def found(text: str, ops: str = "", **constants: np.ndarray) -> set[Fusion]:
    converted, _ = half(parse(text, **constants), rewritten=[])
    model = ir.from_proto(converted)
    prepare(model)
    names = [value.name for node in model.graph for value in node.outputs]
    wanted = ops.split() or ORT.ops(Kind.FUSED) | ORT.ops(Kind.STEPS)
    result = set(predicted(model, wanted))
    assert names == [value.name for node in model.graph for value in node.outputs]
    return result


def test_a_product_and_its_factor_are_one_op():
    assert found(SCALED) == {Fusion("FusedMatMul", "m", frozenset({"t", "p"}))}
    assert found(SCALED, ops="SkipLayerNormalization") == set()


def test_a_product_that_is_scaled_afterwards_does_not_overflow_where_it_is_fused():
    converted, _ = half(parse(SCALED), rewritten=[])
    rng = np.random.default_rng(0)
    batch = {
        name: (110 * rng.standard_normal((2, 8, 64))).astype(np.float16).astype(np.float32)
        for name in "qk"
    }
    expected = run(parse(SCALED), batch)["y"]
    assert not np.isfinite(run_emulated(converted, batch)["y"]).all()
    received = run_emulated(converted, batch, "ort-cuda")["y"]
    np.testing.assert_allclose(received, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


def test_a_value_with_other_readers_is_written():
    """The optimizer leaves such a factor as it is."""
    fusions = found(SCALED.replace("y = Neg(m)", "y = Add(m, p)"))
    assert fusions == {Fusion("FusedMatMul", "p", frozenset({"t"}))}


def test_nothing_is_fused_across_a_cast():
    text = """
    agraph (float[N, 4, 8] x, float[N, 4, 8] s) => (float[N, 4, 8] y) {
        y = LayerNormalization <axis = -1> (Add(x, s), g, b)
    }
    """
    ones = {"g": np.ones(8, np.float32), "b": np.zeros(8, np.float32)}
    assert {fusion.op_type for fusion in found(text, **ones)} == {"SkipLayerNormalization"}
    converted, _ = half(parse(text, **ones), keep_fp32=["LayerNormalization"], rewritten=[])
    model = ir.from_proto(converted)
    prepare(model)
    assert predicted(model, ORT.ops(Kind.STEPS)) == ()


def test_a_normalization_in_formulas_is_fused():
    text = """
    agraph (float[N, 4, 8] x) => (float[N, 4, 8] y)
    <int64[1] last = {-1}, float two = {2}, float eps = {1e-4}> {
        mean = ReduceMean(x, last)
        d = Sub(x, mean)
        sq = Pow(d, two)
        var = ReduceMean(sq, last)
        safe = Add(var, eps)
        std = Sqrt(safe)
        n = Div(d, std)
        scaled = Mul(n, g)
        y = Add(scaled, b)
    }
    """
    arrays = {"g": np.ones(8, np.float32), "b": np.zeros(8, np.float32)}
    (fusion,) = found(text, **arrays)
    assert fusion.op_type == "LayerNormalization"
    assert fusion.inner == {"mean", "d", "sq", "var", "safe", "std", "n", "scaled"}
    converted, _ = half(parse(text, **arrays), rewritten=[])
    x = 500 * np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32)
    assert not np.allclose(
        run_emulated(converted, {"x": x})["y"], run(parse(text, **arrays), {"x": x})["y"], atol=0.1
    )
    received = run_emulated(converted, {"x": x}, "ort-cuda")["y"]
    np.testing.assert_allclose(received, run(parse(text, **arrays), {"x": x})["y"], atol=5e-3)


def test_gelu_and_its_bias_are_one_op():
    text = """
    agraph (float[N, 4, 8] x) => (float[N, 4, 8] y)
    <float root = {1.41421356}, float one = {1}, float h = {0.5}> {
        a = Add(x, b)
        r = Div(a, root)
        e = Erf(r)
        p = Add(e, one)
        m = Mul(a, p)
        y = Mul(m, h)
    }
    """
    (fusion,) = found(text, b=np.ones(8, np.float32))
    assert fusion.op_type == "BiasGelu"
    assert fusion.inner == set("arepm")


def test_a_model_that_the_optimizer_refuses_has_none():
    model = ir.from_proto(half(parse(SCALED), rewritten=[])[0])
    prepare(model)
    next(node for node in model.graph if node.op_type == "Neg").domain = "nobody.knows"
    assert predicted(model, {"FusedMatMul"}) == ()


def test_an_op_of_the_file_beside_an_identity_is_none_of_the_optimizers():
    """The optimizer takes the Identity away, and its kernel would be another mean over all axes."""
    mean = """
    agraph (float[N, 49] x) => (float[N, 1] y) <int64[1] a = {1}> {
        y = Identity(ReduceMean(x, a))
    }
    """
    assert found(mean) == set()
    x = np.ones((4, 49), np.float32)
    converted, _ = half(parse(mean), rewritten=[])
    assert run_emulated(converted, {"x": x}, ORT)["y"].shape == (4, 1)
