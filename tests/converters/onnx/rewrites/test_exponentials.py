"""Softmax and log-sum-exp as FP16 can hold them."""

import numpy as np
import onnx
import pytest
from onnx_graphs import half, op_types, parse, rewritten, run, run_emulated

HEAD = "agraph (float[N, 6, 5] x) => (float{shape} y) <int64[1] axis = {{{axis}}}> "
DIVIDED = "{ e = Exp(x)  s = ReduceSum(e, axis)  y = Div(e, s) }"
TWICE = "{ e = Exp(x)  f = Exp(x)  s = ReduceSum(f, axis)  y = Div(e, s) }"
INVERTED = "{ e = Exp(x)  s = ReduceSum(e, axis)  i = Reciprocal(s)  y = Mul(e, i) }"
LOG_SUM = "{ e = Exp(x)  s = ReduceSum(e, axis)  y = Log(s) }"
LOG_SUM_SQUEEZED = "{ e = Exp(x)  s = ReduceSum <keepdims = 0> (e, axis)  y = Log(s) }"


def graph(body: str, axis: int = 2, shape: str = "[N, 6, 5]") -> onnx.ModelProto:
    return parse(HEAD.format(axis=axis, shape=shape) + body)


def scores(seed: int, scale: float) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((4, 6, 5)) * scale
    return x.astype(np.float32)


@pytest.mark.parametrize(("body", "axis"), [(DIVIDED, 1), (DIVIDED, -1), (TWICE, 2), (INVERTED, 2)])
def test_softmax_is_one_node_however_it_is_written(body: str, axis: int):
    model = graph(body, axis)
    changed, done = rewritten(model)
    assert op_types(changed) == ["Softmax"]
    assert done[-1].endswith("became Softmax, which subtracts the maximum")
    x = scores(1, 5.0)
    expected, received = (run(m, {"x": x})["y"] for m in (model, changed))
    np.testing.assert_allclose(received, expected, rtol=2e-6, atol=1e-12)
    x = scores(0, 20.0)
    expected, received = run(model, {"x": x})["y"], run_emulated(half(model)[0], {"x": x})["y"]
    np.testing.assert_allclose(received, expected, atol=2e-2)


@pytest.mark.parametrize(
    ("body", "shape"),
    [(LOG_SUM, "[N, 6, 1]"), (LOG_SUM_SQUEEZED, "[N, 6]")],
)
def test_a_log_sum_exp_subtracts_the_maximum(body: str, shape: str):
    model = graph(body, shape=shape)
    changed, done = rewritten(model)
    assert "ReduceMax" in op_types(changed)
    assert "subtracts the maximum first" in done[0]
    x = scores(0, 20.0)
    x[0, 0] = -np.inf  # nothing is chosen: the logarithm of zero
    x[0, 1, 0] = np.inf
    x[0, 2, 0] = -np.inf
    expected, received = (run(m, {"x": x})["y"] for m in (model, changed))
    np.testing.assert_allclose(received, expected, rtol=2e-6)
    assert not np.isfinite(expected[0, :2]).any()
    emulated = run_emulated(half(model)[0], {"x": x})["y"]
    np.testing.assert_allclose(emulated, expected, rtol=2e-3, atol=2e-2)
    assert half(model)[1].islands == ()


def test_a_log_sum_exp_of_everything_is_a_number():
    """Inference leaves the shape of a number inside the graph unknown."""
    text = """
    agraph (float[3, 8] x) => (float y) <int64[2] axes = {0, 1}> {
        e = Exp(x)  s = ReduceSum <keepdims = 0> (e, axes)  l = Log(s)  y = Tanh(l)
    }
    """
    model = parse(text)
    converted, report = half(model)
    assert report.rewrites
    x = scores(0, 1.0)[0, :3].repeat(2, 1)[:, :8]
    np.testing.assert_allclose(
        run_emulated(converted, {"x": x})["y"], run(model, {"x": x})["y"], rtol=2e-3
    )


BOUNDED = """{
    m = ReduceMax(x, axis)  c = Clip(m)  z = Sub(x, c)  e = Exp(z)  s = ReduceSum(e, axis)
    y = Log(s)
}"""


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        pytest.param(BOUNDED, "[N, 6, 1]", id="a maximum was subtracted before"),
        pytest.param(
            "{ e = Exp(x)  s = ReduceSum(e, axis)  l = Log(s)  y = Add(l, s) }",
            "[N, 6, 1]",
            id="the sum is read elsewhere",
        ),
        pytest.param(
            "{ e = Exp(x)  s = ReduceSum(e, axis)  d = Div(e, s)  y = Add(d, e) }",
            "[N, 6, 5]",
            id="the powers are read elsewhere",
        ),
        pytest.param(
            "{ e = Exp(x)  t = Tanh(x)  s = ReduceSum(t, axis)  y = Div(e, s) }",
            "[N, 6, 5]",
            id="the sum is of something else",
        ),
        pytest.param(
            "{ e = Exp(x)  s = ReduceSum(e, axis)  y = Div(s, e) }", "[N, 6, 5]", id="upside down"
        ),
    ],
)
def test_what_only_looks_alike_stays(body: str, shape: str):
    model = graph(body, shape=shape)
    changed, done = rewritten(model)
    assert done == []
    assert op_types(changed) == op_types(model)
