"""The ONNX graphs of the corpus: what no Keras model becomes, and files from elsewhere are."""

import numpy as np
import onnx
from onnx_graphs import IF, parse


def if_branches() -> onnx.ModelProto:
    """Branches that capture outer values; one of them writes what the graph was given."""
    return parse(IF)


def scan_sums() -> onnx.ModelProto:
    return parse("""
    agraph (float[T, 4] x) => (float[1, 4] total, float[T, 4] sums)
    <float[4] zero = {0, 0, 0, 0}, int64[1] first = {0}> {
        scaled = Tanh(x)
        end, sums = Scan (zero, scaled) <
            num_scan_inputs = 1,
            body = add (float[4] state, float[4] row) => (float[4] next, float[4] out) {
                next = Add(state, row)
                out = Sigmoid(next)
            }
        >
        total = Unsqueeze(end, first)
    }
    """)


def loop_state() -> onnx.ModelProto:
    """Typed loop state, a captured value, and an output for each trip, of which there may be 0."""
    return parse("""
    agraph (float[N, 4] x, int64 trips) => (float[N, 4] last, float[N, T, 4] all)
    <float[4] step = {0.5, 0.25, 0.125, 1}, bool go = {1}> {
        start = Exp(x)
        last, outs = Loop (trips, go, start) <
            body = once (int64 i, bool c, float[N, 4] state)
                => (bool c_out, float[N, 4] next, float[N, 4] out) {
                c_out = Identity(c)
                next = Add(state, step)
                out = Mul(next, start)
            }
        >
        all = Transpose <perm = [1, 0, 2]> (outs)
    }
    """)


def loop_in_if() -> onnx.ModelProto:
    return parse("""
    agraph (float[N, 4] x, bool flag) => (float[N, 4] y)
    <int64 three = {3}, bool go = {1}, float big = {100000}> {
        y = If (flag) <
            then_branch = yes () => (float[N, 4] t) {
                t = Loop (three, go, x) <
                    body = once (int64 i, bool c, float[N, 4] s) => (bool d, float[N, 4] n) {
                        d = Identity(c)
                        n = Add(Min(s, big), x)
                    }
                >
            },
            else_branch = no () => (float[N, 4] e) { e = Neg(x) }
        >
    }
    """)


def sequences() -> onnx.ModelProto:
    return parse("""
    agraph (float[N, 4] x) => (float[M, 4] y)
    <int64 first = {0}> {
        s = SequenceConstruct(Exp(x), x)
        y = Tanh(ConcatFromSequence <axis = 0> (SequenceInsert(s, SequenceAt(s, first))))
    }
    """)


def functions() -> onnx.ModelProto:
    """A function that calls another, each read at two places."""
    return parse(
        """
        agraph (float[N, 4] x) => (float[N, 4] y) { a = local.swish2(x)  y = local.swish2(a) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        swish2 (v) => (w) { s = local.swish(v)  w = local.swish(s) }
        <domain: "local", opset_import: ["" : 18]>
        swish (v) => (w) { s = Sigmoid(v)  w = Mul(v, s) }
        """,
        extra=', "local" : 1',
    )


def shared_initializers() -> onnx.ModelProto:
    """One weight for an FP16 product, for a loop's body, and for an op that ONNX has in FP32."""
    return parse(
        """
        agraph (float[N, 4] x) => (float[N, 4] y, float[N, 4] z)
        <int64 two = {2}, int64[1] first = {0}, bool go = {1}> {
            p = MatMul(x, w)
            y = Loop (two, go, p) <
                body = once (int64 i, bool c, float[N, 4] s) => (bool d, float[N, 4] n) {
                    d = Identity(c)
                    n = Tanh(MatMul(s, w))
                }
            >
            e = Einsum <equation = "ij,jk->ik"> (x, w)
            series = Range(zero, four, one)
            z = Add(e, Add(series, ReduceSum <keepdims = 0> (Gather <axis = 1> (w, first))))
        }
        """,
        w=np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32) / 2,
        zero=np.array(0, np.float32),
        one=np.array(1, np.float32),
        four=np.array(4, np.float32),
    )


def clamped_initializers() -> onnx.ModelProto:
    """Constants that overflow, vanish, are infinite, or lie among FP16's subnormals."""
    return parse(
        """
        agraph (float[N, 4] x) => (float[N, 4] y, float[N, 4] z)
        {
            unit = Div(x, Sqrt(Add(Mul(x, x), epsilon)))
            y = Add(Mul(Max(Min(x, huge), lowest), tiny), unit)
            z = Mul(Min(x, infinite), Sqrt(positive))
        }
        """,
        huge=np.array(3e38, np.float32),
        lowest=np.array([-1e6, -2.0, -1e5, -3.0], np.float32),
        tiny=np.array([1e-6, 3e-8, 1.0, 2.0], np.float32),
        epsilon=np.array(1e-12, np.float32),
        infinite=np.array(np.inf, np.float32),
        positive=np.array([1.0, 4.0, 1e-30, 9.0], np.float32),
    )


GRAPHS = {
    build.__name__: build
    for build in (
        if_branches,
        scan_sums,
        loop_state,
        loop_in_if,
        sequences,
        functions,
        shared_initializers,
        clamped_initializers,
    )
}
