"""The models of the adversarial set, as functions that build them."""

from collections.abc import Callable

import numpy as np
import onnx
from field_case import weights
from onnx_graphs import parse


def graph(text: str, **arrays: np.ndarray) -> Callable[[], onnx.ModelProto]:
    return lambda: parse(text, **arrays)


def cumsum(size: int) -> Callable[[], onnx.ModelProto]:
    return graph(f"""agraph (float[N, {size}] x) => (float[N, {size}] y) <int64 a = {{1}}> {{
        y = CumSum(x, a)
    }}""")


def residual(norm: str, constants: str = "") -> Callable[[], onnx.ModelProto]:
    return graph(
        f"""agraph (float[N, 4, 256] x, float[N, 4, 256] s) => (float[N, 4, 32] y)
        <int64[1] a = {{-1}}{constants}> {{
            r = Add(x, s)
            {norm}
            y = MatMul(n, h)
        }}""",
        g=np.ones(256, np.float32),
        b=np.zeros(256, np.float32),
        **weights(1, h=(256, 32)),
    )


LAYER = residual("n = LayerNormalization <axis = -1, epsilon = 1e-5> (r, g, b)")
RMS = residual(
    """q = Pow(r, two)
    v = ReduceMean(q, a)
    f = Add(v, e)
    t = Sqrt(f)
    n = Div(r, t)""",
    ", float two = {2}, float e = {1e-6}",
)
NORMALIZED = graph(
    """agraph (float[N, 64] x) => (float[N, 64] y) {
        y = LayerNormalization <axis = -1, epsilon = 1e-12> (x, g, b)
    }""",
    g=np.linspace(0.5, 2, 64, dtype=np.float32),
    b=np.linspace(-1, 1, 64, dtype=np.float32),
)
UNIT = graph("""agraph (float[N, 64] x) => (float[N, 64] y)
    <int64[1] a = {1}, float eps = {1e-12}, float z = {0}> {
        p = Max(x, z)
        sq = Mul(p, p)
        s = ReduceSum(sq, a)
        m = Max(s, eps)
        r = Sqrt(m)
        y = Div(p, r)
    }""")
SMALL_DIVISOR = graph("""agraph (float[N, 64] x) => (float[N, 64] y) <float eps = {2e-5}> {
        a = Abs(x)
        d = Add(a, eps)
        y = Div(x, d)
    }""")


def attention(scale: float) -> Callable[[], onnx.ModelProto]:
    return graph(f"""agraph (float[N, 8, 64] q, float[N, 8, 64] k) => (float[N, 8, 8] y)
    <float s = {{{scale:.9g}}}> {{
        t = Transpose <perm = [0, 2, 1]> (k)
        p = MatMul(q, t)
        m = Mul(p, s)
        y = Softmax(m)
    }}""")


UNSCALED = graph("""agraph (float[N, 8, 64] q, float[N, 8, 64] k) => (float[N, 8, 8] y) {
        t = Transpose <perm = [0, 2, 1]> (k)
        p = MatMul(q, t)
        y = Softmax(p)
    }""")


def reduce(op: str, size: int, tail: str = "y = Identity(r)") -> Callable[[], onnx.ModelProto]:
    return graph(f"""agraph (float[N, {size}] x) => (float[N, 1] y)
    <int64[1] a = {{1}}, float s = {{0.001}}> {{
        r = {op}(x, a)
        {tail}
    }}""")


IMAGE_MEAN = graph("""agraph (float[N, 3, 256, 300] x) => (float[N, 3, 1, 1] y)
    <int64[2] a = {2, 3}> { y = ReduceMean(x, a) }""")
POOL = graph("""agraph (float[N, 4, 128, 128] x) => (float[N, 4, 1, 1] y) {
        y = GlobalAveragePool(x)
    }""")
WINDOWS = graph("""agraph (float[N, 4, 32, 32] x) => (float[N, 4, 2, 2] y) {
        y = AveragePool <kernel_shape = [16, 16], strides = [16, 16]> (x)
    }""")
LOG_SUM_EXP = graph("""agraph (float[N, 40] x) => (float[N, 1] y) <int64[1] a = {1}> {
        e = Exp(x)
        s = ReduceSum(e, a)
        y = Log(s)
    }""")
SOFTMAX = graph("agraph (float[N, 40] x) => (float[N, 40] y) { y = Softmax(x) }")
SOFTMAX_BY_HAND = graph("""agraph (float[N, 40] x) => (float[N, 40] y) <int64[1] a = {1}> {
        e = Exp(x)
        s = ReduceSum(e, a)
        y = Div(e, s)
    }""")


def positions(scale: float) -> Callable[[], onnx.ModelProto]:
    return graph(f"""agraph (int64[N, 8] x) => (float[N, 8] y) <float s = {{{scale:.9g}}}> {{
        f = Cast <to = 1> (x)
        m = Mul(f, s)
        y = Sin(m)
    }}""")


TIME = graph(
    """agraph (float[N, 1] x) => (float[N, 16] y) {
        m = Mul(x, f)
        y = Sin(m)
    }""",
    f=np.geomspace(1, 0.01, 16).astype(np.float32)[None],
)


def range_table(size: int) -> Callable[[], onnx.ModelProto]:
    """A table of sinusoids by position, which is computed in the graph."""
    return graph(
        f"""agraph (float[N, {size}] x) => (float[N, {size}] y)
        <float zero = {{0}}, float end = {{{size}}}, float one = {{1}}, float f = {{0.7}}> {{
            p = Range(zero, end, one)
            m = Mul(p, f)
            t = Sin(m)
            y = Add(x, t)
        }}"""
    )


def gather(rows: int) -> Callable[[], onnx.ModelProto]:
    """Indices that come as floats."""
    table = np.random.default_rng(5).standard_normal((rows, 4)).astype(np.float32)
    return graph(
        """agraph (float[N, 6] x) => (float[N, 6, 4] y) {
            f = Floor(x)
            i = Cast <to = 7> (f)
            y = Gather <axis = 0> (table, i)
        }""",
        table=table,
    )


def resize(size: int) -> Callable[[], onnx.ModelProto]:
    return graph(f"""agraph (float[N, 1, 1, {size}] x) => (float[N, 1, 1, {size * 3}] y)
    <float[4] scales = {{1, 1, 1, 3}}> {{
        y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners">
            (x, , scales)
    }}""")


INSTANCE = graph(
    """agraph (float[N, 3, 16, 16] x) => (float[N, 3, 16, 16] y) {
        y = InstanceNormalization <epsilon = 1e-5> (x, g, b)
    }""",
    g=np.ones(3, np.float32),
    b=np.full(3, 0.5, np.float32),
)


DISTANCES = graph("""agraph (float[N, 32] x, float[N, 32] s) => (float[N, 1] y)
    <int64[1] a = {1}, float two = {2}> {
        xx = Mul(x, x)
        ss = Mul(s, s)
        xs = Mul(x, s)
        sx = ReduceSum(xx, a)
        sq = ReduceSum(ss, a)
        sxs = ReduceSum(xs, a)
        both = Add(sx, sq)
        twice = Mul(sxs, two)
        y = Sub(both, twice)
    }""")
COSINE = graph("""agraph (float[N, 64] x, float[N, 64] s) => (float[N, 1] y)
    <int64[1] a = {1}, float eps = {1e-7}> {
        p = Mul(x, s)
        d = ReduceSum(p, a)
        lx = ReduceL2(x, a)
        ls = ReduceL2(s, a)
        l = Mul(lx, ls)
        f = Add(l, eps)
        y = Div(d, f)
    }""")
VARIANCE = graph("""agraph (float[N, 128] x) => (float[N, 1] y) <int64[1] a = {1}> {
        q = Mul(x, x)
        e = ReduceMean(q, a)
        m = ReduceMean(x, a)
        mm = Mul(m, m)
        y = Sub(e, mm)
    }""")
HYPOT = graph("""agraph (float[N, 64] x, float[N, 64] s) => (float[N, 64] y) {
        xx = Mul(x, x)
        ss = Mul(s, s)
        t = Add(xx, ss)
        y = Sqrt(t)
    }""")
LOGIT = graph("""agraph (float[N, 64] x) => (float[N, 64] y)
    <float low = {1e-7}, float high = {0.9999999}, float one = {1}> {
        p = Clip(x, low, high)
        q = Sub(one, p)
        r = Div(p, q)
        y = Log(r)
    }""")
ENTROPY = graph("""agraph (float[N, 32] x) => (float[N, 1] y)
    <int64[1] a = {1}, float eps = {1e-9}> {
        p = Softmax(x)
        f = Add(p, eps)
        l = Log(f)
        t = Mul(p, l)
        s = ReduceSum(t, a)
        y = Neg(s)
    }""")
SPECTRUM = graph("""agraph (float[N, 64] x) => (float[N, 64] y) <float eps = {1e-10}> {
        q = Mul(x, x)
        f = Add(q, eps)
        y = Log(f)
    }""")
SOFTPLUS = graph("""agraph (float[N, 64] x) => (float[N, 64] y) <float one = {1}> {
        e = Exp(x)
        f = Add(e, one)
        y = Log(f)
    }""")


def activated(op: str) -> Callable[[], onnx.ModelProto]:
    return graph(f"agraph (float[N, 64] x) => (float[N, 64] y) {{ y = {op}(x) }}")


def cancel(size: int) -> Callable[[], onnx.ModelProto]:
    return graph(
        f"agraph (float[N, {size}] x) => (float[N, 4] y) {{ y = MatMul(x, h) }}",
        h=np.repeat([[1.0], [-1.0]], size // 2, 0).astype(np.float32) * np.ones((1, 4), np.float32),
    )


def batch_norm(variance: float) -> Callable[[], onnx.ModelProto]:
    ones = np.ones(8, np.float32)
    return graph(
        """agraph (float[N, 8, 6] x) => (float[N, 8, 6] y) {
            y = BatchNormalization <epsilon = 1e-12> (x, g, b, m, v)
        }""",
        g=ones,
        b=ones / 4,
        m=ones * 0,
        v=ones * np.float32(variance),
    )


def lstm(steps: int, forget: float) -> Callable[[], onnx.ModelProto]:
    """A counter, where the forget gate stays open."""
    drawn = weights(9, w=(1, 4, 32), r=(1, 8, 32))
    bias = np.zeros((1, 64), np.float32)
    bias[0, 16:24] = forget
    return graph(
        f"""agraph (float[N, {steps}, 4] x) => (float[N, 8] y) <int64[1] a = {{0}}> {{
            t = Transpose <perm = [1, 0, 2]> (x)
            all, last, cell = LSTM <hidden_size = 8> (t, w, r, b)
            y = Squeeze(cell, a)
        }}""",
        w=np.ascontiguousarray(drawn["w"].transpose(0, 2, 1)),
        r=np.ascontiguousarray(drawn["r"].transpose(0, 2, 1)),
        b=bias,
    )


def loop(count: int) -> Callable[[], onnx.ModelProto]:
    """Adds a small step to a state, as a clock does."""
    return graph(f"""agraph (float[N, 4] x) => (float[N, 4] y)
    <int64 count = {{{count}}}, bool go = {{1}}, float step = {{0.01}}> {{
        y = Loop (count, go, x) <
            body = once (int64 i, bool c, float[N, 4] s) => (bool d, float[N, 4] n) {{
                d = Identity(c)
                n = Add(s, step)
            }}
        >
    }}""")


MASKED = graph("""agraph (float[N, 8, 8] x, float[N, 1, 8] keep) => (float[N, 8, 8] y)
    <float one = {1}, float lowest = {-3.4028235e38}> {
        drop = Sub(one, keep)
        bias = Mul(drop, lowest)
        m = Add(x, bias)
        y = Softmax(m)
    }""")


MLP = graph(
    """agraph (float[N, 256] x) => (float[N, 10] y) {
        a = MatMul(x, w1)
        b = Relu(a)
        c = MatMul(b, w2)
        d = Tanh(c)
        y = MatMul(d, w3)
    }""",
    **weights(1, w1=(256, 256), w2=(256, 256), w3=(256, 10)),
)
CUBE = graph("""agraph (float[N, 64] x) => (float[N, 64] y)
    <float three = {3}, float c = {0.044715}, float s = {0.79788456}, float one = {1},
     float h = {0.5}> {
        q = Pow(x, three)
        k = Mul(q, c)
        i = Add(x, k)
        j = Mul(i, s)
        t = Tanh(j)
        u = Add(t, one)
        v = Mul(x, h)
        y = Mul(v, u)
    }""")
