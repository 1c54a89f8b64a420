"""Normalizations, variances and lengths without squares in FP16, and what only looks like them."""

import numpy as np
import onnx
import pytest
from onnx_graphs import half, op_types, parse, rewritten, run, run_emulated

AXES = "int64[1] axis = {-1}"
ROOT = """
    mean = ReduceMean(x, axis)
    d = Sub(x, mean)
    {square}
    var = ReduceMean(sq, axis)
    safe = Add(var, eps)
    root = Sqrt(safe)
"""
TORCH = "normal = Div(d, root)  scaled = Mul(normal, g)  y = Add(scaled, b)"
KERAS = """
    s = Mul(Reciprocal(root), g)
    y = Add(Mul(x, s), Add(Mul(Neg(mean), s), b))
"""
TENSORFLOW = """
    s = Mul(g, Reciprocal(root))
    y = Add(Sub(b, Mul(mean, s)), Mul(x, s))
"""
SWAPPED = (
    "inv = Reciprocal(root)  normal = Mul(d, inv)  scaled = Mul(g, normal)  y = Add(b, scaled)"
)
BARE = "y = Div(d, root)"
MULTIPLIED = "sq = Mul(d, d)"
RAISED = "sq = Pow(d, two)"


def graph(body: str, extra: str = "", opset: int = 18, shape: str = "N, 5, 8") -> onnx.ModelProto:
    """A graph from x to y with a scale g and a bias b."""
    rng = np.random.default_rng(7)
    text = (
        f"agraph (float[{shape}] x) => (float[{shape}] y)\n"
        f"<{AXES}, float eps = {{1e-6}}, float two = {{2}}{extra}> {{ {body} }}"
    )
    arrays = {
        name: rng.uniform(0.5, 1.5, 8).astype(np.float32)
        for name in ("g", "b")
        if f"{name})" in body or f"({name}," in body
    }
    model = parse(text, **arrays)
    model.opset_import[0].version = opset
    onnx.checker.check_model(model, full_check=True)
    return model


def sample(seed: int, scale: float = 1.0, shape: tuple[int, ...] = (3, 5, 8)) -> np.ndarray:
    """Rows with means and sizes of their own."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) + rng.standard_normal((*shape[:-1], 1))
    return (x * scale).astype(np.float32)


def assert_same(model: onnx.ModelProto, changed: onnx.ModelProto, x: np.ndarray) -> None:
    expected, received = (run(m, {"x": x})["y"] for m in (model, changed))
    np.testing.assert_allclose(received, expected, rtol=3e-6, atol=3e-6 * np.abs(expected).max())


def assert_held(model: onnx.ModelProto, x: np.ndarray, tolerance: float = 3e-3) -> None:
    """No node stays in FP32, and FP16 arithmetic is near float32's."""
    converted, report = half(model)
    assert report.islands == ()
    assert report.rewrites
    expected, received = run(model, {"x": x})["y"], run_emulated(converted, {"x": x})["y"]
    assert np.linalg.norm(received - expected) <= tolerance * np.linalg.norm(expected)


def layer_norm(end: str, square: str = MULTIPLIED) -> str:
    return ROOT.format(square=square) + end


@pytest.mark.parametrize(
    ("end", "square"),
    [*((end, MULTIPLIED) for end in (TORCH, KERAS, TENSORFLOW, SWAPPED, BARE)), (TORCH, RAISED)],
)
def test_layer_normalization_is_one_node_however_it_is_written(end: str, square: str):
    model = graph(layer_norm(end, square))
    changed, done = rewritten(model)
    assert op_types(changed) == ["ReduceMean", "Sub", "LayerNormalization"]
    assert len(done) == 1
    assert "LayerNormalization, which squares and adds in FP32 inside" in done[0]
    assert_same(model, changed, sample(1))
    assert_held(model, sample(0, 400.0))


def test_layer_normalization_of_a_raw_input_keeps_what_varies_beside_an_offset():
    x = 1013 + sample(1, 0.1)  # of which ONNX Runtime's kernel alone makes NaN
    received = run(rewritten(graph(layer_norm(BARE)))[0], {"x": x})["y"]
    exact = x.astype(np.float64) - x.mean(-1, keepdims=True, dtype=np.float64)
    expected = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(received, expected, atol=2e-3)


def test_layer_normalization_behind_a_product_is_not_centred_twice():
    body = "z = MatMul(x, w)  " + layer_norm(BARE).replace("x,", "z,")
    model = graph(body, ", float[8, 8] w = {" + ", ".join(["0.5"] * 64) + "}")
    assert op_types(rewritten(model)[0]) == ["MatMul", "LayerNormalization"]


@pytest.mark.parametrize(
    "body",
    [
        "sq = Mul(x, x)  m = ReduceMean(sq, axis)  v = Add(m, eps)  r = Sqrt(v)  "
        "n = Div(x, r)  y = Mul(n, g)",
        "sq = Pow(x, two)  m = ReduceMean(sq, axis)  v = Add(eps, m)  r = Sqrt(v)  "
        "i = Reciprocal(r)  s = Mul(i, g)  y = Mul(x, s)",
        "sq = Pow(x, two)  m = ReduceMean(sq, axis)  v = Add(m, eps)  r = Sqrt(v)  "
        "i = Div(one, r)  n = Mul(x, i)  y = Mul(g, n)",
    ],
    ids=["divided", "keras", "llama"],
)
def test_rms_normalization_is_one_node_where_onnx_has_it(body: str):
    new, old = (graph(body, ", float one = {1}", opset) for opset in (23, 18))
    assert op_types(rewritten(new)[0]) == ["RMSNormalization"]
    changed, _ = rewritten(old)
    assert {"Pad", "ReduceL2"} <= set(op_types(changed))
    for model in (new, old):
        assert_same(model, rewritten(model)[0], sample(1))
        assert_held(model, sample(0, 2000.0))


def test_a_normalization_over_an_inner_axis_has_its_square_taken_out():
    model = graph(layer_norm(BARE).replace("axis)", "inner)"), ", int64[1] inner = {1}")
    changed, done = rewritten(model)
    assert op_types(changed) == ["ReduceMean", "Sub", "Pad", "ReduceL2", "Mul", "Div"]
    assert "ReduceL2, which squares in FP32 inside" in done[0]
    assert_same(model, changed, sample(1))
    assert_held(model, sample(0, 400.0))


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (
            "sq = Mul(x, x)  s = ReduceSum(sq, axis)  r = Sqrt(s)  y = Div(x, r)",
            ["ReduceL2", "Div"],
        ),
        (
            "sq = Mul(x, x)  s = ReduceSum(sq, axis)  m = Max(s, eps)  r = Sqrt(m)  y = Div(x, r)",
            ["ReduceL2", "Max", "Div"],
        ),
        (
            "sq = Mul(x, x)  s = ReduceSum(sq, axis)  r = Sqrt(s)  i = Reciprocal(r)  "
            "m = Min(i, far)  y = Mul(x, m)",
            ["ReduceL2", "Max", "Div"],
        ),
        (
            "sq = Pow(x, two)  s = ReduceSum(sq, axis)  r = Pow(s, half)  y = Div(x, r)",
            ["ReduceL2", "Div"],
        ),
        (
            "sq = Mul(x, x)  s = ReduceSum(sq, axis)  r = Pow(s, minus)  y = Mul(x, r)",
            ["ReduceL2", "Div"],
        ),
        ("sq = Mul(x, x)  s = ReduceSum(sq, axis)  y = Div(x, s)", ["ReduceSumSquare", "Div"]),
    ],
    ids=["bare", "tensorflow", "keras", "power", "inverse power", "squared"],
)
def test_lengths_are_not_squared_in_fp16(body: str, kinds: list[str]):
    numbers = ", float far = {1e12}, float half = {0.5}, float minus = {-0.5}"
    model = graph(body, numbers)
    changed, _ = rewritten(model)
    assert op_types(changed) == kinds
    assert_same(model, changed, sample(1))
    assert_held(model, sample(0, 0.5 if "ReduceSumSquare" in kinds else 2000.0))


def test_a_variance_is_scaled_before_it_is_summed():
    body = (
        "m = ReduceMean(x, axis)  d = Sub(x, m)  sq = Mul(d, d)  v = ReduceMean(sq, axis)  "
        "y = Add(x, v)"
    )
    model = graph(body)
    changed, _ = rewritten(model)
    assert op_types(changed) == ["ReduceMean", "Sub", "Mul", "ReduceSumSquare", "Add"]
    assert_same(model, changed, sample(3))
    x = np.zeros((1, 5, 8), np.float32)
    x[..., 0] = 600.0  # the square of its distance from the mean is past 65504, their mean is not
    assert_held(model, x)


@pytest.mark.parametrize("last", ["Sqrt", "Tanh"])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean"])
def test_a_sum_of_all_squares_is_a_number(op: str, last: str):
    """Inference leaves the shape of a number inside the graph unknown."""
    text = (
        "agraph (float[3, 8] x) => (float y) <int64[2] axes = {0, 1}> "
        f"{{ sq = Mul(x, x)  s = {op} <keepdims = 0> (sq, axes)  r = {last}(s)  y = Tanh(r) }}"
    )
    model = parse(text)
    changed, done = rewritten(model)
    assert len(done) == 1
    assert_same(model, changed, sample(0, shape=(3, 8)))
    assert_held(model, sample(0, shape=(3, 8)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("d = Sub(x, mean)", "d = Sub(x, mean)  e = Sub(mean, x)", id="dead code"),
        pytest.param("sq = Mul(d, d)", "sq = Mul(d, x)", id="no square"),
        pytest.param("sq = Mul(d, d)", "sq = Pow(d, eps)", id="another power"),
        pytest.param("root = Sqrt(safe)", "root = Exp(safe)", id="no root"),
        pytest.param("normal = Div(d, root)", "normal = Div(root, d)", id="upside down"),
        pytest.param("safe = Add(var, eps)", "safe = Sub(var, eps)", id="epsilon subtracted"),
        pytest.param("normal = Div(d, root)", "normal = Div(x, root)", id="not centred"),
        pytest.param("mean = ReduceMean(x, axis)", "mean = ReduceMean(x, rows)", id="other axis"),
        pytest.param("mean = ReduceMean(x, axis)", "mean = ReduceMax(x, axis)", id="no mean"),
    ],
)
def test_what_only_looks_like_layer_normalization_is_not_fused(old: str, new: str):
    body = layer_norm(TORCH)
    assert old in body
    model = graph(body.replace(old, new), ", int64[1] rows = {1}")
    changed, _ = rewritten(model)
    fused = new.endswith("Sub(mean, x)")
    assert ("LayerNormalization" in op_types(changed)) == fused
    x = np.abs(sample(0)) + 0.5
    assert_same(model, changed, x)


@pytest.mark.parametrize("value", ["sq", "var", "safe", "root"])
def test_what_is_read_elsewhere_stays(value: str):
    body = layer_norm(TORCH).replace(
        "y = Add(scaled, b)", f"t = Add(scaled, b)  y = Add(t, {value})"
    )
    model = graph(body)
    changed, _ = rewritten(model)
    assert "LayerNormalization" not in op_types(changed)
    assert_same(model, changed, sample(0))


@pytest.mark.parametrize(
    ("kept", "kind"),
    [({"keep_fp32": ["ReduceMean"]}, "ReduceMean"), ({"keep_nodes": {"the_root": "why"}}, "Sqrt")],
)
def test_nodes_that_the_user_named_stay_as_they_are(kept: dict, kind: str):
    model = graph(layer_norm(TORCH))
    next(node for node in model.graph.node if node.op_type == "Sqrt").name = "the_root"
    changed, _ = rewritten(model, **kept)
    assert op_types(changed).count(kind) == op_types(model).count(kind)
    assert "LayerNormalization" not in op_types(changed)
    _, report = half(model, **kept)
    assert report.islands


def test_a_rewrite_in_a_body_reads_the_outer_graph():
    """With axes as attributes, as they were before opset 18."""
    text = """
    <ir_version: 9, opset_import: ["" : 17]>
    agraph (float[N, 8] x, bool go) => (float[N, 8] y) <float eps = {1e-12}> {
        y = If (go) <
            then_branch = yes () => (float[N, 8] a) {
                mean = ReduceMean <axes = [1]> (x)  d = Sub(x, mean)  sq = Mul(d, d)
                var = ReduceMean <axes = [1]> (sq)  safe = Add(var, eps)  root = Sqrt(safe)
                a = Div(d, root)
            },
            else_branch = no () => (float[N, 8] b) { b = Identity(x) }
        >
    }
    """
    model = onnx.parser.parse_model(text)
    changed, done = rewritten(model)
    assert len(done) == 1
    x = sample(0, shape=(3, 8))
    for go in (True, False):
        batch = {"x": x, "go": np.array(go)}
        np.testing.assert_allclose(
            run(changed, batch)["y"], run(model, batch)["y"], rtol=1e-5, atol=1e-6
        )


def test_vectors_shorter_than_fp16s_numbers_are_normalized_in_fp32():
    model = graph(
        "sq = Mul(x, x)  s = ReduceSum(sq, axis)  m = Max(s, low)  r = Sqrt(m)  y = Div(x, r)",
        ", float low = {1e-24}",
    )
    x = 1e-7 * sample(0)
    for edges, within in (({}, True), (None, False)):
        converted, _ = half(model, edges=edges)
        received, expected = (run(one, {"x": x})["y"] for one in (converted, model))
        assert np.allclose(received, expected, atol=1e-3) == within
