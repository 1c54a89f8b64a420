"""Divisors that only a subnormal constant keeps from zero."""

import numpy as np
import pytest
from onnx_graphs import half, parse, run, run_emulated

X = np.array([[0, 1e-4, -0.5, 3, 0, 40]], np.float32)


def model(body: str, epsilon: float):
    return parse(
        "agraph (float[N, 6] x) => (float[N, 6] y) "
        f"<float eps = {{{epsilon}}}, int64[1] last = {{1}}> {{ {body} }}"
    )


def kept(body: str, epsilon: float) -> list[str]:
    _, report = half(model(body, epsilon))
    return sorted(island.op_type for island in report.islands)


FRAGILE = {
    "quotient": ("a = Abs(x)  d = Add(a, eps)  y = Div(x, d)", ["Add", "Div"]),
    "floor": ("a = Abs(x)  d = Max(eps, a)  y = Div(x, d)", ["Div", "Max"]),
    "moved": ("a = Abs(x)  d = Add(a, eps)  m = Identity(d)  y = Div(x, m)", ["Add", "Div"]),
    "root": ("a = Mul(x, x)  d = Add(a, eps)  r = Sqrt(d)  y = Div(x, r)", ["Add", "Sqrt"]),
    "logarithm": ("a = Abs(x)  d = Add(a, eps)  y = Log(d)", ["Add", "Log"]),
    "mean": ("a = ReduceMean(x, last)  p = Abs(a)  d = Add(p, eps)  y = Div(x, d)", ["Add", "Div"]),
}


# Between the floor and what it is there for: each divides zero by zero where the floor is lost.
FAR_OFF = {
    "sum": "a = Abs(x)  d = Add(a, eps)  s = ReduceSum(d, last)  y = Div(d, s)",
    "mean": "a = Abs(x)  d = Max(a, eps)  s = ReduceMean(d, last)  y = Div(d, s)",
    "total": "a = Abs(x)  d = Max(a, eps)  s = CumSum(d, last)  y = Div(d, s)",
    "factor": "a = Abs(x)  d = Add(a, eps)  s = Mul(d, two)  y = Log(s)",
    "quotient": "a = Abs(x)  d = Add(a, eps)  s = Div(d, two)  y = Log(s)",
    "two floors": "a = Abs(x)  d = Max(a, eps)  s = Add(d, d)  y = Div(d, s)",
    "sign": "a = Abs(x)  d = Max(a, eps)  s = Neg(d)  y = Div(d, s)",
    "product": "a = Abs(x)  d = Max(a, small)  s = Mul(d, d)  y = Log(s)",
    "choice": "a = Abs(x)  l = Less(a, eps)  d = Where(l, eps, a)  y = Log(d)",
}


def far_off(case: str, epsilon: float):
    return parse(
        "agraph (float[N, 6] x) => (float[N, 6] y) "
        f"<float eps = {{{epsilon}}}, int64[1] last = {{1}}, float two = {{2}}, "
        f"float small = {{{epsilon**0.5}}}> {{ {FAR_OFF[case]} }}".replace(
            "CumSum(d, last)", "CumSum(d, axis)"
        ),
        axis=np.array(1),
    )


@pytest.mark.parametrize("case", FAR_OFF)
def test_a_floor_is_followed_to_what_it_keeps_from_zero(case: str):
    x = np.concatenate([X, 0 * X])
    original = far_off(case, 1e-9)
    expected = run(original, {"x": x})["y"]
    received = run_emulated(half(original)[0], {"x": x})["y"]
    np.testing.assert_allclose(received, expected, rtol=3e-3, atol=1e-3)
    assert not half(far_off(case, 0.01))[1].islands


@pytest.mark.parametrize("case", FRAGILE)
def test_they_stay_in_fp32_and_every_hardware_divides(case: str):
    body, nodes = FRAGILE[case]
    original = model(body, 2e-5)
    converted, report = half(original)
    assert sorted(island.op_type for island in report.islands) == nodes
    expected = run(original, {"x": X})["y"]
    for profile in ("gpu", "webgpu"):
        received = run_emulated(converted, {"x": X}, profile)["y"]
        np.testing.assert_allclose(received, expected, rtol=3e-3, atol=1e-3)


def test_the_reason_names_the_constant():
    _, report = half(model(FRAGILE["quotient"][0], 2e-5))
    assert {island.reason for island in report.islands} == {
        "only 2e-05 keeps a divisor from zero, which is zero where hardware flushes subnormal FP16 "
        "numbers"
    }


@pytest.mark.parametrize(
    ("body", "epsilon"),
    [
        pytest.param("a = Abs(x)  d = Add(a, eps)  y = Div(x, d)", 1e-4, id="a normal number"),
        pytest.param("a = Abs(x)  d = Add(a, eps)  y = Mul(x, d)", 2e-5, id="no divisor"),
        pytest.param("a = Abs(x)  d = Add(a, eps)  y = Div(d, x)", 2e-5, id="a dividend"),
        pytest.param("a = Abs(x)  d = Add(a, eps)  e = Exp(d)  y = Div(x, e)", 2e-5, id="far off"),
    ],
)
def test_other_small_constants_cost_nothing(body: str, epsilon: float):
    assert kept(body, epsilon) == []


def normalized(epsilon: float):
    return parse(
        f"""agraph (float[N, 6] x) => (float[N, 6] y) {{
            y = LayerNormalization <axis = -1, epsilon = {epsilon}> (x, g)
        }}""",
        g=np.ones(6, np.float32),
    )


@pytest.mark.parametrize("epsilon", [0.0, 1e-12])
def test_rows_of_one_value_are_normalized_on_every_hardware(epsilon: float):
    """WebGPU's kernel rounds 1 / deviation to FP16, and 0 * inf is NaN."""
    x = np.concatenate([X, 0 * X])
    converted, report = half(normalized(epsilon))
    assert report.rewrites == (
        f"LayerNormalization: its epsilon {epsilon:.3g} became 2.4e-10, so that 1 / deviation "
        "stays in the range of FP16",
    )
    expected = run(normalized(1e-12), {"x": x})["y"]
    for profile in ("gpu", "webgpu"):
        received = run_emulated(converted, {"x": x}, profile)["y"]
        np.testing.assert_allclose(received, expected, rtol=3e-3, atol=3e-3)
    (node,) = (node for node in converted.graph.node if node.op_type == "LayerNormalization")
    next(one for one in node.attribute if one.name == "epsilon").f = 1e-12
    assert np.isnan(run_emulated(converted, {"x": x}, "webgpu")["y"][1]).all()
