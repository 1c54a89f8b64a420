"""Constant factors folded into what reads them, and where they stay."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import half, op_types, parse, rewritten, run, run_emulated

from tfmp.converters.onnx.fp16.rewriter import prepare
from tfmp.converters.onnx.rewrites.scales import scale_down

RNG = np.random.default_rng(3)
WEIGHTS = (0.01 * RNG.standard_normal((8, 4))).astype(np.float32)
KERNEL = (0.01 * RNG.standard_normal((4, 3, 2, 2))).astype(np.float32)
SCALE = RNG.uniform(0.5, 1.5, 8).astype(np.float32)

CASES = {
    "matmul": ("[N, 8]", "[N, 4]", "s = Mul(x, c)  y = MatMul(s, w)"),
    "divided": ("[N, 8]", "[N, 4]", "s = Div(x, d)  y = MatMul(s, w)"),
    "gemm": ("[N, 8]", "[N, 4]", "s = Mul(c, x)  y = Gemm(s, w, bias)"),
    "conv": ("[N, 3, 5, 5]", "[N, 4, 4, 4]", "s = Mul(x, c)  r = Relu(s)  y = Conv(r, k, bias)"),
    "layer norm": (
        "[N, 8]",
        "[N, 8]",
        "s = Mul(x, c)  y = LayerNormalization <epsilon = 10.0> (s, g)",
    ),
    "two readers": (
        "[N, 8]",
        "[N, 4]",
        "s = Mul(x, c)  t = Identity(s)  a = MatMul(s, w)  b = MatMul(t, w)  y = Mul(a, b)",
    ),
}
ARRAYS = {"w": WEIGHTS, "k": KERNEL, "g": SCALE, "bias": np.ones(4, np.float32)}


def graph(inputs: str, outputs: str, body: str, factor: float = 3000.0) -> onnx.ModelProto:
    text = (
        f"agraph (float{inputs} x) => (float{outputs} y) "
        f"<float c = {{{factor}}}, float d = {{{1 / factor}}}> {{ {body} }}"
    )
    words = set(body.replace(",", " ").replace("(", " ").replace(")", " ").split())
    return parse(text, **{name: array for name, array in ARRAYS.items() if name in words})


def sample(shape: str) -> np.ndarray:
    sizes = [3 if size == "N" else int(size) for size in shape.strip("[]").split(", ")]
    return np.random.default_rng(0).uniform(5, 40, sizes).astype(np.float32)


@pytest.mark.parametrize("case", CASES)
def test_a_factor_goes_into_the_weights_and_nothing_overflows(case: str):
    inputs, outputs, body = CASES[case]
    model = graph(inputs, outputs, body)
    changed, done = rewritten(model)
    assert len(done) == 1
    assert "its factor 3000 went into the ops that it feeds" in done[0]
    assert len(op_types(changed)) == len(op_types(model)) - 1
    x = sample(inputs)
    expected, received = (run(m, {"x": x})["y"] for m in (model, changed))
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    x = x if case != "two readers" else x / 100  # its product overflows, whatever comes before
    expected = run(model, {"x": x})["y"]
    emulated = run_emulated(half(model)[0], {"x": x})["y"]
    assert np.linalg.norm(emulated - expected) < 5e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("body", "factor"),
    [
        pytest.param("s = Mul(x, c)  y = MatMul(s, w)", 0.004, id="makes numbers smaller"),
        pytest.param("s = Mul(x, c)  y = MatMul(s, w)", 1e7, id="weights would overflow"),
        pytest.param("s = Mul(x, c)  y = MatMul(s, w)", -3.0, id="negative"),
        pytest.param("s = Mul(x, c)  t = Exp(s)  y = MatMul(t, w)", 3.0, id="not linear"),
        pytest.param(
            "s = Mul(x, c)  a = MatMul(s, w)  e = ReduceMax(s)  y = Add(a, e)",
            3.0,
            id="read elsewhere",
        ),
    ],
)
def test_a_factor_that_cannot_go_stays(body: str, factor: float):
    model = graph("[N, 8]", "[N, 4]", body, factor)
    changed, done = rewritten(model)
    assert done == []
    assert op_types(changed) == op_types(model)


def test_shared_weights_keep_their_values_for_others():
    body = "s = Mul(x, c)  a = MatMul(s, w)  b = MatMul(x, w)  y = Add(a, b)"
    model = graph("[N, 8]", "[N, 4]", body)
    changed, done = rewritten(model)
    assert len(done) == 1
    x = sample("[N, 8]")
    expected, received = (run(m, {"x": x})["y"] for m in (model, changed))
    np.testing.assert_allclose(received, expected, rtol=1e-5)


ATTENTION = """
agraph (float[N, 6, 16] q, float[N, 6, 16] k) => (float[N, 6, 6] y)
<float s = {FACTOR}, float d = {8}> {
    p = MatMul(q, Transpose <perm = [0, 2, 1]> (k))
    BODY
}
"""


def attention(body: str = "y = Mul(p, s)", factor: float = 0.125) -> onnx.ModelProto:
    return parse(ATTENTION.replace("FACTOR", str(factor)).replace("BODY", body))


@pytest.mark.parametrize(
    ("body", "factor", "scaled"),
    [("y = Mul(p, s)", 0.125, 1), ("y = Div(p, d)", 1, 1), ("y = Mul(s, p)", 0.001, 2)],
)
def test_a_small_factor_goes_in_front_of_a_product(body: str, factor: float, scaled: int):
    model = attention(body, factor)
    changed, (text,) = rewritten(model)
    assert "went in front of the product" in text
    kinds = op_types(changed)
    assert kinds.count("Mul") == scaled
    assert kinds[-1] == "MatMul"
    rng = np.random.default_rng(0)
    batch = {name: rng.normal(0, 120, (3, 6, 16)).astype(np.float32) for name in "qk"}
    expected = run(model, batch)["y"]
    np.testing.assert_allclose(
        run(changed, batch)["y"], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max()
    )
    for profile in ("gpu", "webgpu", "ort-cuda"):
        received = run_emulated(half(model)[0], batch, profile)["y"]
        assert np.linalg.norm(received - expected) < 5e-3 * np.linalg.norm(expected)
    # Without the rewrite the product overflows.
    plain = run_emulated(half(model, rewritten=[])[0], batch)["y"]
    assert not np.isfinite(plain).all()


@pytest.mark.parametrize(
    "body", ["m = Mul(p, s)  y = Add(m, p)", "e = Exp(p)  y = Mul(e, s)", "y = Div(s, p)"]
)
def test_a_small_factor_of_anything_else_stays(body: str):
    model = attention(body)
    changed, done = rewritten(model)
    assert done == []
    assert op_types(changed) == op_types(model)


def test_a_small_factor_behind_weights_stays():
    """Rounding moves weights that it would make subnormal, and a layer's products are small."""
    model = graph("[N, 8]", "[N, 4]", "a = MatMul(x, w)  y = Mul(a, c)", 0.125)
    assert rewritten(model)[1] == []


def scaled_down(body: str, peak: float = 1e6) -> tuple[list[str], float]:
    """What was done to product p, which reaches `peak`, and how much the results changed."""
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    text = f"agraph (float[N, 8] x) => (float[N, 8] y) {{ {body} }}"
    original = parse(text, w=w * 1e5, v=v, b=w[0] * 1e5, one=np.ones(8, np.float32))
    model = ir.from_proto(original)
    prepare(model)
    first = next(node for node in model.graph if node.op_type in ("MatMul", "Gemm"))
    first.name = "p"
    done = scale_down(model, {"p": peak})
    x = {"x": rng.standard_normal((16, 8)).astype(np.float32)}
    exact, received = run(original, x)["y"], run(ir.to_proto(model), x)["y"]
    return done, float(np.abs(received - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize(
    "body",
    [
        "p = MatMul(x, w)  y = MatMul(p, v)",
        "p = MatMul(x, w)  a = Add(b, p)  r = Relu(a)  y = MatMul(r, v)",
        "p = Gemm(x, w, b)  y = LayerNormalization(p, one)",
    ],
)
def test_a_product_past_fp16_is_scaled_down_with_its_bias(body: str):
    done, change = scaled_down(body)
    assert len(done) == 1
    assert change < 1e-5
    assert scaled_down(body, peak=6e4) == ([], 0.0)


@pytest.mark.parametrize(
    "body",
    [
        "p = MatMul(x, w)  t = Tanh(p)  y = MatMul(t, v)",
        "p = MatMul(x, w)  a = Add(p, x)  y = MatMul(a, v)",
        "p = MatMul(x, w)  y = Relu(p)",
        "p = MatMul(x, w)  q = MatMul(p, v)  y = Add(p, q)",
    ],
    ids=["nonlinear", "a sum of two values", "an output", "another reader"],
)
def test_a_product_whose_readers_take_no_factor_stays(body: str):
    assert scaled_down(body) == ([], 0.0)
