"""The models of the adversarial set, as functions that build them."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx_graphs import parse, weights

Build = Callable[[], onnx.ModelProto]
PRODUCT = "MatMul(x, Transpose <perm = [0, 2, 1]> (s))"


def graph(
    nodes: str,
    shape: str = "64",
    result: str = "",
    names: str = "x",
    kind: str = "float",
    **known: Any,
) -> Build:
    """A graph from inputs to y.

    Args:
        nodes: its nodes; `a` is the last axis.
        shape: of a sample of each input.
        result: of a sample of y, where it is another one.
        names: of the inputs, a letter each.
        kind: their type.
        **known: numbers and arrays that nodes read.
    """
    inputs = ", ".join(f"{kind}[N, {shape}] {name}" for name in names)
    known = {"a": np.array([-1])} | known if re.search(r"\ba\b", nodes) else known
    arrays = {
        name: np.asarray(value, np.float32 if isinstance(value, float) else None)
        for name, value in known.items()
    }
    text = f"agraph ({inputs}) => (float[N, {result or shape}] y) {{ {nodes} }}"
    return lambda: parse(text, **arrays)


def residual(norm: str, **known: float) -> Build:
    given = {"g": np.ones(256, np.float32), "b": np.zeros(256, np.float32)} if "g" in norm else {}
    nodes = f"r = Add(x, s) {norm} y = MatMul(n, h)"
    return graph(nodes, "4, 256", "4, 32", "xs", **given, **known, **weights(1, h=(256, 32)))


def reduce(op: str, size: int, tail: str = "y = Identity(r)", **known: float) -> Build:
    return graph(f"r = {op}(x, a) {tail}", f"{size}", "1", **known)


LAYER = residual("n = LayerNormalization <axis = -1, epsilon = 1e-5> (r, g, b)")
RMS = residual("n = Div(r, Sqrt(Add(ReduceMean(Pow(r, two), a), e)))", two=2.0, e=1e-6)
NORMALIZED = graph(
    "y = LayerNormalization <axis = -1, epsilon = 1e-12> (x, g, b)",
    g=np.linspace(0.5, 2, 64, dtype=np.float32),
    b=np.linspace(-1, 1, 64, dtype=np.float32),
)
UNIT = graph("p = Max(x, z) y = Div(p, Sqrt(Max(ReduceSum(Mul(p, p), a), eps)))", eps=1e-12, z=0.0)
SMALL_DIVISOR = graph("y = Div(x, Add(Abs(x), eps))", eps=2e-5)
UNSCALED = graph(f"y = Softmax({PRODUCT})", "8, 64", "8, 8", "xs")
SCALED = graph(f"y = Softmax(Mul({PRODUCT}, f))", "8, 64", "8, 8", "xs", f=0.0003)
IMAGE_MEAN = graph("y = ReduceMean(x, sides)", "3, 256, 300", "3, 1, 1", sides=np.array([2, 3]))
POOL = graph("y = GlobalAveragePool(x)", "4, 128, 128", "4, 1, 1")
WINDOWS = graph(
    "y = AveragePool <kernel_shape = [16, 16], strides = [16, 16]> (x)", "4, 32, 32", "4, 2, 2"
)
LOG_SUM_EXP = graph("y = Log(ReduceSum(Exp(x), a))", "40", "1")
SOFTMAX = graph("y = Softmax(x)", "40")
SOFTMAX_BY_HAND = graph("e = Exp(x) y = Div(e, ReduceSum(e, a))", "40")
TIME = graph("y = Sin(Mul(x, f))", "1", "16", f=np.geomspace(1, 0.01, 16).astype(np.float32)[None])
INSTANCE = graph(
    "y = InstanceNormalization <epsilon = 1e-5> (x, g, b)",
    "3, 16, 16",
    g=np.ones(3, np.float32),
    b=np.full(3, 0.5, np.float32),
)
DISTANCES = graph(
    "both = Add(ReduceSum(Mul(x, x), a), ReduceSum(Mul(s, s), a))"
    "y = Sub(both, Mul(ReduceSum(Mul(x, s), a), two))",
    *("32", "1", "xs"),
    two=2.0,
)
COSINE = graph(
    "y = Div(ReduceSum(Mul(x, s), a), Add(Mul(ReduceL2(x, a), ReduceL2(s, a)), eps))",
    *("64", "1", "xs"),
    eps=1e-7,
)
VARIANCE = graph("m = ReduceMean(x, a) y = Sub(ReduceMean(Mul(x, x), a), Mul(m, m))", "128", "1")
HYPOT = graph("y = Sqrt(Add(Mul(x, x), Mul(s, s)))", names="xs")
LOGIT = graph(
    "p = Clip(x, low, high) y = Log(Div(p, Sub(one, p)))", low=1e-7, high=0.9999999, one=1.0
)
ENTROPY = graph(
    "p = Softmax(x) y = Neg(ReduceSum(Mul(p, Log(Add(p, eps))), a))", "32", "1", eps=1e-9
)
SPECTRUM = graph("y = Log(Add(Mul(x, x), eps))", eps=1e-10)
SOFTPLUS = graph("y = Log(Add(Exp(x), one))", one=1.0)
SOFTPLUS_OP = graph("y = Softplus(x)")
MLP = graph(
    "y = MatMul(Tanh(MatMul(Relu(MatMul(x, w1)), w2)), w3)",
    *("256", "10"),
    **weights(1, w1=(256, 256), w2=(256, 256), w3=(256, 10)),
)
CUBE = graph(
    "t = Tanh(Mul(Add(x, Mul(Pow(x, three), c)), s)) y = Mul(Mul(x, h), Add(t, one))",
    three=3.0,
    c=0.044715,
    s=0.79788456,
    one=1.0,
    h=0.5,
)


def cumsum(size: int) -> Build:
    return graph("y = CumSum(x, one)", f"{size}", one=np.array(1))


def positions(scale: float) -> Build:
    return graph("y = Sin(Mul(Cast <to = 1> (x), s))", "8", kind="int64", s=scale)


def range_table(size: int) -> Build:
    """A table of sinusoids by position, which is computed in the graph."""
    known = {"zero": 0.0, "end": float(size), "one": 1.0, "f": 0.7}
    return graph("y = Add(x, Sin(Mul(Range(zero, end, one), f)))", f"{size}", **known)


def gather(rows: int) -> Build:
    """Indices that come as floats."""
    table = np.random.default_rng(5).standard_normal((rows, 4)).astype(np.float32)
    return graph(
        "y = Gather <axis = 0> (table, Cast <to = 7> (Floor(x)))", "6", "6, 4", table=table
    )


def resize(size: int) -> Build:
    return graph(
        'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners">'
        "(x, , scales)",
        *(f"1, 1, {size}", f"1, 1, {size * 3}"),
        scales=np.array([1, 1, 1, 3], np.float32),
    )


def cancel(size: int) -> Build:
    signs = np.repeat([[1.0], [-1.0]], size // 2, 0) * np.ones((1, 4))
    return graph("y = MatMul(x, h)", f"{size}", "4", h=signs.astype(np.float32))


def batch_norm(variance: float) -> Build:
    ones = np.ones(8, np.float32)
    return graph(
        "y = BatchNormalization <epsilon = 1e-12> (x, g, b, m, v)",
        "8, 6",
        g=ones,
        b=ones / 4,
        m=ones * 0,
        v=ones * np.float32(variance),
    )


def lstm(steps: int, forget: float) -> Build:
    """A counter, where the forget gate stays open."""
    drawn = weights(9, w=(1, 4, 32), r=(1, 8, 32))
    bias = np.zeros((1, 64), np.float32)
    bias[0, 16:24] = forget
    return graph(
        "all, last, cell = LSTM <hidden_size = 8> (Transpose <perm = [1, 0, 2]> (x), w, r, b)"
        "y = Squeeze(cell, first)",
        *(f"{steps}, 4", "8"),
        w=np.ascontiguousarray(drawn["w"].transpose(0, 2, 1)),
        r=np.ascontiguousarray(drawn["r"].transpose(0, 2, 1)),
        b=bias,
        first=np.array([0]),
    )


def loop(count: int) -> Build:
    """Adds a small step to a state, as a clock does."""
    return graph(
        """y = Loop (count, go, x) <
            body = once (int64 i, bool c, float[N, 4] s) => (bool d, float[N, 4] n) {
                d = Identity(c)
                n = Add(s, step)
            }
        >""",
        "4",
        count=np.array(count),
        go=np.array(True),
        step=0.01,
    )


def masked() -> onnx.ModelProto:
    return parse("""agraph (float[N, 8, 8] x, float[N, 1, 8] keep) => (float[N, 8, 8] y)
    <float one = {1}, float lowest = {-3.4028235e38}> {
        y = Softmax(Add(x, Mul(Sub(one, keep), lowest)))
    }""")
