"""The edges of a model in FP32: which nodes they are, and what they cost."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx_graphs import parse, run

from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.fp16 import split_biases, to_fp16
from tfmp.converters.onnx.fp16.edges import ANGLE, BEFORE, BEHIND, BESIDE, VANISHES, edges_of
from tfmp.converters.onnx.fp16.rewriter import prepare

W = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def reasons(body: str, data: dict | None = None, size: str = "N, 8", **arrays: object) -> dict:
    """Reasons by the op types of the nodes that stay in FP32."""
    values = {name: np.asarray(value, np.float32) for name, value in arrays.items()}
    model = ir.from_proto(
        parse(f"agraph (float[{size}] x) => (float[{size}] y) {{ {body} }}", w=W, **values)
    )
    prepare(model)
    split_biases(model)
    return {node.op_type: reason for node, reason in edges_of(model, data).items()}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("h = MatMul(x, w) y = Exp(h)", {"Exp": BEHIND}),
        ("h = Exp(x) y = MatMul(h, w)", {"Exp": BEFORE}),
        ("h = MatMul(x, w) i = Exp(h) y = MatMul(i, w)", {}),
        ("h = MatMul(x, w) i = Sin(h) y = MatMul(i, w)", {}),
        # What reaches the output through a product, too, is not behind the last one.
        ("h = MatMul(x, w) i = Tanh(h) p = MatMul(i, w) y = Add(i, p)", {"Add": BEHIND}),
    ],
)
def test_nodes_outside_of_products(body: str, expected: dict):
    assert reasons(body) == expected


def test_the_sine_of_a_time_that_is_an_integer():
    """It stands beside products, behind none."""
    text = """
    agraph (float[N, 8] x, int64[N, 1] t) => (float[N, 8] y) {
        a = Mul(Cast <to = 1> (t), c)
        y = MatMul(Add(MatMul(x, w), Sin(a)), w)
    }
    """
    model = ir.from_proto(parse(text, w=W, c=np.float32(0.1)))
    prepare(model)
    found = {node.op_type: reason for node, reason in edges_of(model).items()}
    assert found == dict.fromkeys(("Cast", "Mul", "Sin"), ANGLE)


def step(given: str, result: str) -> str:
    """A body of many weights: it centres what it is given, and adds an offset at its end."""
    nodes = (
        "c = Sub({}, c_in) h = MatMul(c, wide) t = Tanh(h) p = MatMul(t, back) {} = Add(p, c_out)"
    )
    return nodes.format(given, result)


LOOPS = {
    "Scan": f"""s, y = Scan <num_scan_inputs = 1, body = g (float[8] s0, float[8] xt)
        => (float[8] s1, float[8] yt) {{ {step("xt", "yt")} s1 = Tanh(s0) }}> (zero, x)""",
    "Loop": f"""y = Loop <body = g (int64 i, bool go, float[N, 8] s0)
        => (bool more, float[N, 8] s1) {{ {step("s0", "s1")} more = Identity(go) }}> (n, yes, x)""",
    "If": f"""m = ReduceMax <keepdims = 0> (x) some = Greater(m, one) y = If (some) <
        then_branch = g () => (float[N, 8] a) {{ {step("x", "a")} }},
        else_branch = e () => (float[N, 8] b) {{ q = MatMul(x, w) b = Identity(q) }}>""",
}


@pytest.mark.parametrize("op", LOOPS)
def test_both_ends_inside_large_bodies(op: str):
    """States, what a branch gives, and slices have the precision of their node, FP16 in a Scan."""
    offset = 8 if op == "Scan" else 1013
    wide, back = np.full((8, 600), 0.01, np.float32), np.full((600, 8), 0.01, np.float32)
    offsets = {"c_in": np.full(8, offset, np.float32), "c_out": np.full(8, 290, np.float32)}
    others = {"zero": np.zeros(8, np.float32), "one": np.float32(1), "yes": np.bool_(True)}
    text = f"agraph (float[N, 8] x) => (float[N, 8] y) {{ {LOOPS[op]} }}"
    model = parse(text, w=W, wide=wide, back=back, n=np.int64(1), **offsets, **others)
    half, _ = to_fp16(ir.from_proto(model), edges={})
    types = {}
    for node in half.graph.all_nodes():
        types.setdefault(node.op_type, set()).add(node.outputs[0].dtype.name)
    assert types["Add"] == {"FLOAT"}
    assert types["Sub"] == {"FLOAT16" if op == "Scan" else "FLOAT"}
    assert types["MatMul"] == {"FLOAT16"}
    x = offset + np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    prepare(half)
    exact, found = (run(one, {"x": x})["y"] for one in (model, ir.to_proto(emulated(half))))
    np.testing.assert_allclose(found, exact, atol=2e-3)  # 0.25 before


@pytest.mark.parametrize(("number", "kept"), [(31, False), (290, True), (3e4, False)])
def test_an_added_constant_up_to_the_next_product(number: float, kept: bool):
    body = "h = MatMul(x, w) i = Add(h, c) j = Tanh(i) k = MatMul(j, w) y = Relu(k)"
    assert reasons(body, c=number) == ({"Add": BESIDE, "Tanh": BESIDE} if kept else {})


@pytest.mark.parametrize(
    ("number", "spread", "kept"),
    [(290, 1, True), (290, 100, False), (5, 0.01, True), (5, 1, False), (5e4, 1, True)],
    ids=["kelvin", "spread out", "small beside less", "small", "past the size of masks"],
)
def test_data_tell_what_an_added_constant_is_large_beside(number, spread, kept):
    x = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    body = "h = MatMul(x, v) i = Add(h, c) j = Tanh(i) k = MatMul(j, w) y = Relu(k)"
    scaled = (W + np.eye(8, dtype=np.float32)) * spread / 2
    found = reasons(body, {"x": x}, c=number, v=scaled)
    assert found == ({"Add": BESIDE, "Tanh": BESIDE} if kept else {})


def test_a_mask_of_data_is_no_offset():
    """Nor is a table of positions, whose numbers differ; the same number everywhere is one."""
    mask = np.triu(np.full((8, 8), -2e4, np.float32), 1)
    table = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    body = "h = MatMul(x, w) i = Add(h, c) j = Softmax(i) k = MatMul(j, w) y = Relu(k)"
    x = np.random.default_rng(0).standard_normal((64, 8, 8)).astype(np.float32)
    kept = dict.fromkeys(("Add", "Softmax"), BESIDE)
    for constant, expected in ((mask, {}), (40 * table, {}), (40 * table + 3000, kept)):
        assert reasons(body, {"x": x}, size="N, 8, 8", c=constant) == expected


def test_a_part_of_known_size_moves_at_most_a_share():
    """Open axes count as one element; data tell what they are."""
    body = "h = MatMul(x, w) y = Exp(h)"
    assert reasons(body, size="N, 90000, 8") == {}
    assert reasons(body, size="N, T, 8") == {}
    assert reasons(body, {"x": np.ones((2, 90000, 8), np.float32)}, size="N, T, 8") == {}
    assert reasons(body, {"x": np.ones((2, 10, 8), np.float32)}, size="N, T, 8") == {"Exp": BEHIND}


@pytest.mark.parametrize(("number", "split"), [(1.0, False), (300.0, True)])
def test_a_bias_that_is_an_offset_is_added_in_fp32(number: float, split: bool):
    body = "h = Tanh(x) i = MatMul(h, w) y = Gemm <beta = 2.0> (i, w, b)"
    found = reasons(body, size="N, 8", b=np.full(8, number))
    assert found == {"Tanh": BEFORE, **({"Add": BEHIND} if split else {})}


def test_a_large_part_stays_but_for_an_offset():
    offset = np.full(8, 300.0)
    body = "h = MatMul(x, w) i = Add(h, b) y = Exp(i)"
    assert reasons(body, size="N, 90000, 8", b=offset) == {"Add": BEHIND, "Exp": BEHIND}


def test_a_column_that_vanishes_keeps_a_small_product_only():
    tiny = W.copy()
    tiny[:, 3] = 1e-7
    body = "h = MatMul(x, big) y = MatMul(h, tiny)"
    wide = np.ones((8, 8 * 30), np.float32)
    narrow = np.tile(tiny, (30, 1))
    assert reasons(body, big=wide, tiny=narrow) == {}
    body = "h = MatMul(x, big) i = MatMul(h, back) y = MatMul(i, tiny)"
    wide, back = np.ones((8, 900), np.float32), np.ones((900, 8), np.float32)
    assert reasons(body, big=wide, back=back, tiny=tiny) == {"MatMul": VANISHES}


def test_the_file_keeps_the_digits_beside_an_offset():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((64, 8)).astype(np.float32)
    text = "agraph (float[N, 8] x) => (float[N, 8] y) { y = Gemm(x, w, b) }"
    model = parse(text, w=W, b=np.full(8, 290, np.float32))
    exact = x @ W
    errors = []
    for edges in (None, {}):
        half, _ = to_fp16(ir.from_proto(model), edges=edges)
        prepare(half)
        found = run(ir.to_proto(emulated(half)), {"x": x})["y"] - 290
        errors.append(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    assert errors[0] > 0.02
    assert errors[1] < 1e-3


def test_a_table_stays_fp16_beside_an_edge():
    body = "h = Gather(t, i) y = ReduceMean <keepdims = 0> (h, axis)"
    text = f"agraph (int64[N, 8] i) => (float[N, 16] y) {{ {body} }}"
    table = np.ones((1000, 16), np.float32)
    model = parse(text, t=table, axis=np.array([1]))
    half, _ = to_fp16(ir.from_proto(model), edges={})
    types = {value.name: value.dtype for value in half.graph.initializers.values()}
    assert types["t"] == ir.DataType.FLOAT16
    assert half.graph.outputs[0].producer().inputs[0].dtype == ir.DataType.FLOAT
