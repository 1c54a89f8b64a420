"""GELU from its formulas, in every order that exporters write them."""

import numpy as np
import onnx
import pytest
from onnx_graphs import half, op_types, parse, rewritten, run, run_emulated

CONSTANTS = {
    "half": 0.5,
    "one": 1.0,
    "three": 3.0,
    "root2": 1.4142135,
    "down": 0.70710677,
    "cubic": 0.044715,
    "inner": 0.7978846,
}
EXACT = {
    "torch": "u = Div(x, root2)  f = Erf(u)  s = Add(f, one)  p = Mul(x, s)  y = Mul(p, half)",
    "halved first": """
        h = Mul(half, x)  u = Mul(x, down)  f = Erf(u)  s = Add(one, f)  y = Mul(h, s)
    """,
    "keras": """
        h = Mul(half, x)  n = Neg(x)  u = Mul(n, down)  f = Erf(u)  s = Sub(one, f)  y = Mul(h, s)
    """,
    "gate halved": """
        u = Div(x, root2)  f = Erf(u)  s = Add(f, one)  g = Mul(s, half)  y = Mul(g, x)
    """,
}
TANH = {
    "keras": """
        h = Mul(half, x)  c = Pow(x, three)  k = Mul(cubic, c)  a = Add(x, k)  u = Mul(inner, a)
        f = Tanh(u)  s = Add(one, f)  y = Mul(h, s)
    """,
    "torch": """
        q = Mul(x, x)  c = Mul(q, x)  k = Mul(c, cubic)  a = Add(k, x)  u = Mul(a, inner)
        f = Tanh(u)  s = Add(f, one)  h = Mul(x, half)  y = Mul(h, s)
    """,
    "factored": """
        q = Mul(x, x)  k = Mul(q, cubic)  a = Add(one, k)  v = Mul(x, inner)  u = Mul(v, a)
        f = Tanh(u)  s = Add(f, one)  g = Mul(s, x)  y = Mul(half, g)
    """,
}


def graph(body: str, opset: int = 20) -> onnx.ModelProto:
    used = ", ".join(f"float {name} = {{{number}}}" for name, number in CONSTANTS.items())
    model = parse(f"agraph (float[N, 8] x) => (float[N, 8] y) <{used}> {{ {body} }}")
    model.opset_import[0].version = opset
    return model


@pytest.mark.parametrize(
    ("body", "form"),
    [(body, b"none") for body in EXACT.values()] + [(body, b"tanh") for body in TANH.values()],
    ids=[f"erf {name}" for name in EXACT] + [f"tanh {name}" for name in TANH],
)
def test_both_formulas_become_one_node(body: str, form: bytes):
    model = graph(body)
    changed, _ = rewritten(model)
    assert op_types(changed) == ["Gelu"]
    assert changed.graph.node[0].attribute[0].s == form
    x = np.random.default_rng(0).uniform(-6, 6, (32, 8)).astype(np.float32)
    expected = run(model, {"x": x})["y"]
    np.testing.assert_allclose(run(changed, {"x": x})["y"], expected, rtol=1e-4, atol=1e-6)
    drifts = [
        np.linalg.norm(run_emulated(m, {"x": x})["y"] - expected)
        for m in (half(model)[0], half(model, rewritten=[])[0])
    ]
    assert drifts[0] < drifts[1]


def test_before_opset_20_the_formula_stays():
    for body in (EXACT["torch"], TANH["torch"]):
        model = graph(body, 18)
        assert op_types(rewritten(model)[0]) == op_types(model)


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        pytest.param(EXACT["torch"], "Mul(p, half)", "Mul(p, down)", id="another factor"),
        pytest.param(EXACT["torch"], "Add(f, one)", "Add(f, half)", id="another constant"),
        pytest.param(EXACT["torch"], "Div(x, root2)", "Div(x, three)", id="another width"),
        pytest.param(EXACT["torch"], "p = Mul(x, s)", "z = Exp(x)  p = Mul(z, s)", id="another x"),
        pytest.param(
            EXACT["torch"], "y = Mul(p, half)", "q = Mul(p, half)  y = Add(q, s)", id="gate"
        ),
        pytest.param(EXACT["keras"], "n = Neg(x)", "n = Mul(x, one)", id="mirrored"),
        pytest.param(TANH["keras"], "Pow(x, three)", "Pow(x, root2)", id="another power"),
        pytest.param(TANH["torch"], "c = Mul(q, x)", "c = Mul(q, q)", id="fourth power"),
        pytest.param(TANH["factored"], "Add(one, k)", "Add(half, k)", id="another polynomial"),
    ],
)
def test_what_only_looks_like_gelu_stays(body: str, old: str, new: str):
    assert old in body
    model = graph(body.replace(old, new))
    assert "Gelu" not in op_types(rewritten(model)[0])
