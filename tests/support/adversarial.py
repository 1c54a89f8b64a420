"""Small models that FP16 breaks on some runtime, and twins of them that are sound on every one.

Most come from what public reports complain of; `field_threads.py` has the reports themselves. Each
model breaks in one way: a sum stops growing, a square overflows, an epsilon vanishes, a large
number loses its fraction.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from field_case import weights
from onnx_graphs import parse

from tfmp.converters.shared.tensors import Batch

Generator = np.random.Generator
Draw = Callable[[Generator, int], Batch]

# With 299 samples or more, no verdict waits for more of them.
SAMPLES = 320


@dataclass(frozen=True)
class Adversary:
    """One model.

    Attributes:
        name: unique; a twin ends in "_sound".
        harm: whether a runtime that is known, or an oracle, loses its FP16 file.
        make: builds the float32 model.
        draw: draws samples by input name.
    """

    name: str
    harm: bool
    make: Callable[[], onnx.ModelProto]
    draw: Draw

    def batch(self, samples: int = SAMPLES) -> Batch:
        """Its samples, the same every time."""
        return self.draw(np.random.default_rng(3), samples)


def _normal(*shape: int, scale: float = 1.0, shift: float = 0.0, name: str = "x") -> Draw:
    def draw(generator: Generator, samples: int) -> Batch:
        values = generator.standard_normal((samples, *shape)) * scale + shift
        return {name: values.astype(np.float32)}

    return draw


def _pair(*shape: int, scale: float = 1.0, shift: float = 0.0, names: str = "xs") -> Draw:
    def draw(generator: Generator, samples: int) -> Batch:
        return {
            name: (generator.standard_normal((samples, *shape)) * scale + shift).astype(np.float32)
            for name in names
        }

    return draw


def _uniform(*shape: int, low: float = 0.0, high: float = 1.0, own: bool = False) -> Draw:
    """Uniform numbers; `own` gives each sample a largest one of its own."""

    def draw(generator: Generator, samples: int) -> Batch:
        values = generator.uniform(low, high, (samples, *shape))
        if own:
            values *= generator.uniform(0.2, 1, (samples, *[1] * len(shape)))
        return {"x": values.astype(np.float32)}

    return draw


def _whole(*shape: int, below: int) -> Draw:
    def draw(generator: Generator, samples: int) -> Batch:
        return {"x": generator.integers(0, below, (samples, *shape))}

    return draw


def _indices(*shape: int, below: int) -> Draw:
    """Whole numbers in float32, as some exporters hand indices on."""

    def draw(generator: Generator, samples: int) -> Batch:
        return {"x": generator.integers(0, below, (samples, *shape)).astype(np.float32)}

    return draw


def _with_zeros(draw: Draw, every: int, name: str = "x") -> Draw:
    """Every so manieth sample of an input is zero."""

    def zeroed(generator: Generator, samples: int) -> Batch:
        batch = draw(generator, samples)
        batch[name][::every] = 0
        return batch

    return zeroed


def _with_dead_rows(generator: Generator, samples: int) -> Batch:
    x = generator.standard_normal((samples, 64)).astype(np.float32)
    x[::7] = -np.abs(x[::7])
    return {"x": x}


def _graph(text: str, **arrays: np.ndarray) -> Callable[[], onnx.ModelProto]:
    return lambda: parse(text, **arrays)


def _cumsum(size: int) -> Callable[[], onnx.ModelProto]:
    return _graph(f"""agraph (float[N, {size}] x) => (float[N, {size}] y) <int64 a = {{1}}> {{
        y = CumSum(x, a)
    }}""")


def _residual(norm: str, constants: str = "") -> Callable[[], onnx.ModelProto]:
    return _graph(
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


_LAYER = _residual("n = LayerNormalization <axis = -1, epsilon = 1e-5> (r, g, b)")
_RMS = _residual(
    """q = Pow(r, two)
    v = ReduceMean(q, a)
    f = Add(v, e)
    t = Sqrt(f)
    n = Div(r, t)""",
    ", float two = {2}, float e = {1e-6}",
)
_NORMALIZED = _graph(
    """agraph (float[N, 64] x) => (float[N, 64] y) {
        y = LayerNormalization <axis = -1, epsilon = 1e-12> (x, g, b)
    }""",
    g=np.linspace(0.5, 2, 64, dtype=np.float32),
    b=np.linspace(-1, 1, 64, dtype=np.float32),
)
_UNIT = _graph("""agraph (float[N, 64] x) => (float[N, 64] y)
    <int64[1] a = {1}, float eps = {1e-12}, float z = {0}> {
        p = Max(x, z)
        sq = Mul(p, p)
        s = ReduceSum(sq, a)
        m = Max(s, eps)
        r = Sqrt(m)
        y = Div(p, r)
    }""")
_SMALL_DIVISOR = _graph("""agraph (float[N, 64] x) => (float[N, 64] y) <float eps = {2e-5}> {
        a = Abs(x)
        d = Add(a, eps)
        y = Div(x, d)
    }""")


def _attention(scale: float) -> Callable[[], onnx.ModelProto]:
    return _graph(f"""agraph (float[N, 8, 64] q, float[N, 8, 64] k) => (float[N, 8, 8] y)
    <float s = {{{scale:.9g}}}> {{
        t = Transpose <perm = [0, 2, 1]> (k)
        p = MatMul(q, t)
        m = Mul(p, s)
        y = Softmax(m)
    }}""")


_UNSCALED = _graph("""agraph (float[N, 8, 64] q, float[N, 8, 64] k) => (float[N, 8, 8] y) {
        t = Transpose <perm = [0, 2, 1]> (k)
        p = MatMul(q, t)
        y = Softmax(p)
    }""")


def _reduce(op: str, size: int, tail: str = "y = Identity(r)") -> Callable[[], onnx.ModelProto]:
    return _graph(f"""agraph (float[N, {size}] x) => (float[N, 1] y)
    <int64[1] a = {{1}}, float s = {{0.001}}> {{
        r = {op}(x, a)
        {tail}
    }}""")


_IMAGE_MEAN = _graph("""agraph (float[N, 3, 256, 300] x) => (float[N, 3, 1, 1] y)
    <int64[2] a = {2, 3}> { y = ReduceMean(x, a) }""")
_POOL = _graph("""agraph (float[N, 4, 128, 128] x) => (float[N, 4, 1, 1] y) {
        y = GlobalAveragePool(x)
    }""")
_WINDOWS = _graph("""agraph (float[N, 4, 32, 32] x) => (float[N, 4, 2, 2] y) {
        y = AveragePool <kernel_shape = [16, 16], strides = [16, 16]> (x)
    }""")
_LOG_SUM_EXP = _graph("""agraph (float[N, 40] x) => (float[N, 1] y) <int64[1] a = {1}> {
        e = Exp(x)
        s = ReduceSum(e, a)
        y = Log(s)
    }""")
_SOFTMAX = _graph("agraph (float[N, 40] x) => (float[N, 40] y) { y = Softmax(x) }")
_SOFTMAX_BY_HAND = _graph("""agraph (float[N, 40] x) => (float[N, 40] y) <int64[1] a = {1}> {
        e = Exp(x)
        s = ReduceSum(e, a)
        y = Div(e, s)
    }""")


def _positions(scale: float) -> Callable[[], onnx.ModelProto]:
    return _graph(f"""agraph (int64[N, 8] x) => (float[N, 8] y) <float s = {{{scale:.9g}}}> {{
        f = Cast <to = 1> (x)
        m = Mul(f, s)
        y = Sin(m)
    }}""")


_TIME = _graph(
    """agraph (float[N, 1] x) => (float[N, 16] y) {
        m = Mul(x, f)
        y = Sin(m)
    }""",
    f=np.geomspace(1, 0.01, 16).astype(np.float32)[None],
)


def _range_table(size: int) -> Callable[[], onnx.ModelProto]:
    """A table of sinusoids by position, which is computed in the graph."""
    return _graph(
        f"""agraph (float[N, {size}] x) => (float[N, {size}] y)
        <float zero = {{0}}, float end = {{{size}}}, float one = {{1}}, float f = {{0.7}}> {{
            p = Range(zero, end, one)
            m = Mul(p, f)
            t = Sin(m)
            y = Add(x, t)
        }}"""
    )


def _gather(rows: int) -> Callable[[], onnx.ModelProto]:
    """Indices that come as floats."""
    table = np.random.default_rng(5).standard_normal((rows, 4)).astype(np.float32)
    return _graph(
        """agraph (float[N, 6] x) => (float[N, 6, 4] y) {
            f = Floor(x)
            i = Cast <to = 7> (f)
            y = Gather <axis = 0> (table, i)
        }""",
        table=table,
    )


def _resize(size: int) -> Callable[[], onnx.ModelProto]:
    return _graph(f"""agraph (float[N, 1, 1, {size}] x) => (float[N, 1, 1, {size * 3}] y)
    <float[4] scales = {{1, 1, 1, 3}}> {{
        y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners">
            (x, , scales)
    }}""")


_INSTANCE = _graph(
    """agraph (float[N, 3, 16, 16] x) => (float[N, 3, 16, 16] y) {
        y = InstanceNormalization <epsilon = 1e-5> (x, g, b)
    }""",
    g=np.ones(3, np.float32),
    b=np.full(3, 0.5, np.float32),
)


def _regions(scale: float, shift: float) -> Draw:
    """Images with texture, every third one nearly flat on a shift."""

    def draw(generator: Generator, samples: int) -> Batch:
        x = generator.standard_normal((samples, 3, 16, 16))
        x[::3] *= scale
        return {"x": (x + shift).astype(np.float32)}

    return draw


_DISTANCES = _graph("""agraph (float[N, 32] x, float[N, 32] s) => (float[N, 1] y)
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
_COSINE = _graph("""agraph (float[N, 64] x, float[N, 64] s) => (float[N, 1] y)
    <int64[1] a = {1}, float eps = {1e-7}> {
        p = Mul(x, s)
        d = ReduceSum(p, a)
        lx = ReduceL2(x, a)
        ls = ReduceL2(s, a)
        l = Mul(lx, ls)
        f = Add(l, eps)
        y = Div(d, f)
    }""")
_VARIANCE = _graph("""agraph (float[N, 128] x) => (float[N, 1] y) <int64[1] a = {1}> {
        q = Mul(x, x)
        e = ReduceMean(q, a)
        m = ReduceMean(x, a)
        mm = Mul(m, m)
        y = Sub(e, mm)
    }""")
_HYPOT = _graph("""agraph (float[N, 64] x, float[N, 64] s) => (float[N, 64] y) {
        xx = Mul(x, x)
        ss = Mul(s, s)
        t = Add(xx, ss)
        y = Sqrt(t)
    }""")
_LOGIT = _graph("""agraph (float[N, 64] x) => (float[N, 64] y)
    <float low = {1e-7}, float high = {0.9999999}, float one = {1}> {
        p = Clip(x, low, high)
        q = Sub(one, p)
        r = Div(p, q)
        y = Log(r)
    }""")
_ENTROPY = _graph("""agraph (float[N, 32] x) => (float[N, 1] y)
    <int64[1] a = {1}, float eps = {1e-9}> {
        p = Softmax(x)
        f = Add(p, eps)
        l = Log(f)
        t = Mul(p, l)
        s = ReduceSum(t, a)
        y = Neg(s)
    }""")
_SPECTRUM = _graph("""agraph (float[N, 64] x) => (float[N, 64] y) <float eps = {1e-10}> {
        q = Mul(x, x)
        f = Add(q, eps)
        y = Log(f)
    }""")
_SOFTPLUS = _graph("""agraph (float[N, 64] x) => (float[N, 64] y) <float one = {1}> {
        e = Exp(x)
        f = Add(e, one)
        y = Log(f)
    }""")


def _activated(op: str) -> Callable[[], onnx.ModelProto]:
    return _graph(f"agraph (float[N, 64] x) => (float[N, 64] y) {{ y = {op}(x) }}")


def _cancel(size: int) -> Callable[[], onnx.ModelProto]:
    return _graph(
        f"agraph (float[N, {size}] x) => (float[N, 4] y) {{ y = MatMul(x, h) }}",
        h=np.repeat([[1.0], [-1.0]], size // 2, 0).astype(np.float32) * np.ones((1, 4), np.float32),
    )


def _batch_norm(variance: float) -> Callable[[], onnx.ModelProto]:
    ones = np.ones(8, np.float32)
    return _graph(
        """agraph (float[N, 8, 6] x) => (float[N, 8, 6] y) {
            y = BatchNormalization <epsilon = 1e-12> (x, g, b, m, v)
        }""",
        g=ones,
        b=ones / 4,
        m=ones * 0,
        v=ones * np.float32(variance),
    )


def _lstm(steps: int, forget: float) -> Callable[[], onnx.ModelProto]:
    """A counter, where the forget gate stays open."""
    drawn = weights(9, w=(1, 4, 32), r=(1, 8, 32))
    bias = np.zeros((1, 64), np.float32)
    bias[0, 16:24] = forget
    return _graph(
        f"""agraph (float[N, {steps}, 4] x) => (float[N, 8] y) <int64[1] a = {{0}}> {{
            t = Transpose <perm = [1, 0, 2]> (x)
            all, last, cell = LSTM <hidden_size = 8> (t, w, r, b)
            y = Squeeze(cell, a)
        }}""",
        w=np.ascontiguousarray(drawn["w"].transpose(0, 2, 1)),
        r=np.ascontiguousarray(drawn["r"].transpose(0, 2, 1)),
        b=bias,
    )


def _loop(count: int) -> Callable[[], onnx.ModelProto]:
    """Adds a small step to a state, as a clock does."""
    return _graph(f"""agraph (float[N, 4] x) => (float[N, 4] y)
    <int64 count = {{{count}}}, bool go = {{1}}, float step = {{0.01}}> {{
        y = Loop (count, go, x) <
            body = once (int64 i, bool c, float[N, 4] s) => (bool d, float[N, 4] n) {{
                d = Identity(c)
                n = Add(s, step)
            }}
        >
    }}""")


_MASKED = _graph("""agraph (float[N, 8, 8] x, float[N, 1, 8] keep) => (float[N, 8, 8] y)
    <float one = {1}, float lowest = {-3.4028235e38}> {
        drop = Sub(one, keep)
        bias = Mul(drop, lowest)
        m = Add(x, bias)
        y = Softmax(m)
    }""")


def _kept(generator: Generator, samples: int) -> Batch:
    lengths = generator.integers(2, 9, samples)
    keep = (np.arange(8) < lengths[:, None]).astype(np.float32)[:, None]
    return {"x": generator.standard_normal((samples, 8, 8)).astype(np.float32), "keep": keep}


_MLP = _graph(
    """agraph (float[N, 256] x) => (float[N, 10] y) {
        a = MatMul(x, w1)
        b = Relu(a)
        c = MatMul(b, w2)
        d = Tanh(c)
        y = MatMul(d, w3)
    }""",
    **weights(1, w1=(256, 256), w2=(256, 256), w3=(256, 10)),
)
_CUBE = _graph("""agraph (float[N, 64] x) => (float[N, 64] y)
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


def _both(
    name: str,
    make: Callable[[], onnx.ModelProto],
    harmful: Draw,
    benign: Draw,
    other: Callable[[], onnx.ModelProto] | None = None,
) -> list[Adversary]:
    return [
        Adversary(name, True, make, harmful),
        Adversary(f"{name}_sound", False, other or make, benign),
    ]


ADVERSARIES: tuple[Adversary, ...] = (
    *_both("cumsum", _cumsum(6000), _uniform(6000), _uniform(50), _cumsum(50)),
    *_both("residual", _LAYER, _pair(4, 256, scale=212), _pair(4, 256)),
    *_both("residual_mean", _LAYER, _pair(4, 256, scale=0.2, shift=30), _pair(4, 256, shift=0.5)),
    *_both("rms_residual", _RMS, _pair(4, 256, scale=212), _pair(4, 256)),
    Adversary("dead_rows_sound", False, _UNIT, _with_dead_rows),
    Adversary("normalized_dead_rows_sound", False, _NORMALIZED, _with_dead_rows),
    Adversary("small_divisor_sound", False, _SMALL_DIVISOR, _with_zeros(_normal(64), 5)),
    Adversary("scaled_after_sound", False, _attention(0.0003), _pair(8, 64, scale=110, names="qk")),
    *_both(
        *("unscaled_attention", _UNSCALED),
        *(_pair(8, 64, scale=150, names="qk"), _pair(8, 64, scale=0.5, names="qk")),
    ),
    *_both(
        *("long_mean", _reduce("ReduceMean", 4096), _normal(4096, scale=20, shift=100)),
        *(_uniform(49, own=True), _reduce("ReduceMean", 49)),
    ),
    Adversary("image_mean", True, _IMAGE_MEAN, _uniform(3, 256, 300, own=True)),
    Adversary("pool", True, _POOL, _uniform(4, 128, 128, high=10, own=True)),
    *_both(
        *("windows", _WINDOWS),
        *(_uniform(4, 32, 32, low=200, high=400), _uniform(4, 32, 32, own=True)),
    ),
    *_both(
        *("softplus_op", _activated("Softplus")),
        *(_normal(64, shift=-7), _normal(64)),
    ),
    *_both("asinh", _activated("Asinh"), _normal(64, scale=200), _normal(64)),
    *_both("selu", _activated("Selu"), _normal(64, scale=0.004), _normal(64)),
    *_both(
        *("square_sum", _reduce("ReduceSumSquare", 64, "y = Mul(r, s)")),
        *(_normal(64, scale=60), _uniform(64, own=True)),
    ),
    *_both("length", _reduce("ReduceL2", 64), _normal(64, scale=400), _uniform(64, own=True)),
    *_both(
        "log_sum_exp",
        _reduce("ReduceLogSumExp", 80_000),
        _uniform(80_000, own=True),
        _normal(40, scale=2),
        _reduce("ReduceLogSumExp", 40),
    ),
    Adversary("log_sum_exp_by_hand_sound", False, _LOG_SUM_EXP, _normal(40, scale=6)),
    Adversary("softmax_by_hand_sound", False, _SOFTMAX_BY_HAND, _normal(40, scale=6)),
    *_both("large_logits", _SOFTMAX, _normal(40, scale=30, shift=3000), _normal(40, scale=3)),
    *_both(
        *("long_sine", _positions(0.7), _whole(8, below=6000)),
        *(_whole(8, below=100), _positions(0.01)),
    ),
    *_both("time_embedding", _TIME, _uniform(1, high=1000), _uniform(1, high=1)),
    *_both("range", _range_table(3000), _normal(3000), _normal(40), _range_table(40)),
    *_both("gather", _gather(6000), _indices(6, below=5999), _indices(6, below=900), _gather(900)),
    Adversary("resize_sound", False, _resize(3000), _normal(1, 1, 3000)),
    *_both("flat_region", _INSTANCE, _regions(0.001, 8.0), _regions(0.2, 0.0)),
    *_both(
        *("squared_distance", _DISTANCES),
        *(_pair(32, scale=0.1, shift=20), _pair(32)),
    ),
    Adversary("cosine_of_zeros_sound", False, _COSINE, _with_zeros(_pair(64), 9)),
    *_both(
        *("variance_of_squares", _VARIANCE),
        *(_normal(128, scale=0.5, shift=30), _normal(128)),
    ),
    *_both("hypotenuse", _HYPOT, _pair(64, scale=400), _pair(64)),
    *_both("logit", _LOGIT, _uniform(64, high=1e-4), _uniform(64, low=0.1, high=0.9)),
    Adversary("entropy_sound", False, _ENTROPY, _normal(32, scale=2)),
    *_both("spectrum", _SPECTRUM, _normal(64, scale=1e-4), _uniform(64, low=0.5, high=40)),
    *_both("softplus", _SOFTPLUS, _normal(64, scale=12), _normal(64)),
    *_both(
        *("cancelling_product", _cancel(6000), _normal(6000, scale=3, shift=30)),
        *(_normal(64), _cancel(64)),
    ),
    Adversary("tiny_variance_sound", False, _batch_norm(1e-9), _normal(8, 6, scale=3e-5)),
    Adversary("batch_norm_sound", False, _batch_norm(0.5), _normal(8, 6)),
    *_both(
        "counting_lstm",
        _lstm(2000, 12.0),
        _normal(2000, 4, scale=0.3),
        _normal(30, 4),
        _lstm(30, 0.0),
    ),
    *_both("clock", _loop(3000), _uniform(4, high=30), _uniform(4, high=1), _loop(20)),
    Adversary("lowest_mask_sound", False, _MASKED, _kept),
    Adversary("dense_sound", False, _MLP, _normal(256)),
    Adversary("cube_sound", False, _CUBE, _normal(64, scale=20)),
)
