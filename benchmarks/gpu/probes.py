"""Small graphs for single facts about kernels, each on inputs that show whether the fact is true.

A probe is written once, with T as its type: in float it is the reference, in float16 the file that
is measured. What a probe asks is whether a kernel adds, squares or keeps subnormal numbers as
`tfmp.converters.onnx.emulation.facts` has it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx

from tfmp.converters.shared.tensors import Batch

_SAMPLES = 64
Draw = Callable[[np.random.Generator], Batch]


@dataclass(frozen=True)
class Probe:
    """One question to a runtime.

    Attributes:
        asks: the question, for the report.
        text: the graph in ONNX's text form, with T for its type.
        draw: makes the inputs of a seed.
        constants: by name, values that the graph reads.
        opset: of the graph.
    """

    asks: str
    text: str
    draw: Draw
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    opset: int = 18

    def model(self, half: bool) -> onnx.ModelProto:
        """The graph in float16 or float, checked in full."""
        text = self.text.replace("T[", "float16[" if half else "float[")
        model = onnx.parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : {self.opset}]>\n{text}'
        )
        for name, value in self.constants.items():
            if value.dtype == np.float32 and half:
                value = value.astype(np.float16)
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        onnx.checker.check_model(model, full_check=True)
        return model

    def batch(self) -> Batch:
        """Inputs that float16 holds exactly: only the arithmetic differs."""
        drawn = self.draw(np.random.default_rng(0))
        return {
            name: value.astype(np.float16).astype(np.float32) if value.dtype.kind == "f" else value
            for name, value in drawn.items()
        }


def _normal(width: int, scale: float = 1.0, offset: float = 0.0) -> Draw:
    return lambda rng: {"x": offset + scale * rng.standard_normal((_SAMPLES, width))}


def _uniform(width: int, low: float, high: float) -> Draw:
    return lambda rng: {"x": rng.uniform(low, high, (_SAMPLES, width))}


def _images(side: int, channels: int, scale: float = 1.0) -> Draw:
    return lambda rng: {"x": scale * rng.standard_normal((_SAMPLES, channels, side, side))}


def _unary(op: str, width: int = 1024, axes: str = "") -> str:
    """A graph of one op, over its last axis where `axes` is its input's or attribute's form."""
    if axes == "input":
        return (
            f"g (T[N,{width}] x) => (T[N,1] y) <int64[1] axis = {{1}}> "
            f"{{ y = {op} <keepdims=1> (x, axis) }}"
        )
    return f"g (T[N,{width}] x) => (T[N,{width}] y) {{ y = {op} {axes} (x) }}"


def _weights(*shape: int, seed: int = 1, scale: float | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    size = scale if scale is not None else 1 / np.sqrt(shape[0])
    return (size * rng.standard_normal(shape)).astype(np.float16).astype(np.float32)


_AXIS = {"axis": np.array(1, np.int64)}
_CUMSUM = "g (T[N,{0}] x) => (T[N,{0}] y) {{ y = CumSum (x, axis) }}"
_SKIP = """
g (T[N,4,{0}] x) => (T[N,4,{0}] y) {{
    h = Add (x, x)
    y = LayerNormalization <axis = -1, epsilon = 0.001> (h, gain, bias)
}}
"""
_NORM = {
    "gain": np.ones(256, np.float32),
    "bias": np.zeros(256, np.float32),
}


def _sequences(scale: float, offset: float = 0.0) -> Draw:
    return lambda rng: {"x": offset + scale * rng.standard_normal((_SAMPLES, 4, 256))}


PROBES: dict[str, Probe] = {
    # The kernels that are said to add in FP16.
    "cumsum": Probe("does CumSum add in FP16?", _CUMSUM.format(1024), _uniform(1024, 0, 1), _AXIS),
    "cumsum_past_2048": Probe(
        "does a running sum of ones stop at 2048?",
        _CUMSUM.format(3000),
        _uniform(3000, 1, 1),
        _AXIS,
    ),
    "skip_norm": Probe(
        "does Add before LayerNormalization square in FP16?",
        _SKIP.format(256),
        _sequences(1.0),
        _NORM,
    ),
    "skip_norm_large": Probe(
        "does that square overflow?", _SKIP.format(256), _sequences(200.0), _NORM
    ),
    "skip_norm_offset": Probe(
        "does its variance cancel far from zero?", _SKIP.format(256), _sequences(0.2, 10.0), _NORM
    ),
    "reduce_mean": Probe(
        "is the sum inside ReduceMean rounded to FP16?",
        _unary("ReduceMean", axes="input"),
        _uniform(1024, 0, 2),
    ),
    "reduce_mean_large": Probe(
        "does that sum overflow?", _unary("ReduceMean", axes="input"), _uniform(1024, 50, 100)
    ),
    "reduce_sum": Probe(
        "does ReduceSum add in FP32?", _unary("ReduceSum", axes="input"), _uniform(1024, 0, 2)
    ),
    "reduce_sum_square": Probe(
        "does ReduceSumSquare square in FP16?",
        _unary("ReduceSumSquare", axes="input"),
        _normal(1024, 2.0),
    ),
    "reduce_l2": Probe(
        "does ReduceL2 square in FP32?", _unary("ReduceL2", axes="input"), _normal(1024, 40.0)
    ),
    "reduce_log_sum": Probe(
        "is the sum inside ReduceLogSum rounded to FP16?",
        _unary("ReduceLogSum", axes="input"),
        _uniform(1024, 0.1, 2),
    ),
    "reduce_log_sum_exp": Probe(
        "does ReduceLogSumExp round its exponentials to FP16?",
        _unary("ReduceLogSumExp", axes="input"),
        _normal(1024, 3.0),
    ),
    # Softmax and its relatives.
    "softmax": Probe(
        "does Softmax add in FP32?", _unary("Softmax", axes="<axis=-1>"), _normal(1024, 3.0)
    ),
    "softmax_wide": Probe(
        "does a Softmax past 1024 columns, another kernel, add in FP32?",
        _unary("Softmax", 2048, "<axis=-1>"),
        _normal(2048, 2.0),
    ),
    "log_softmax": Probe(
        "does LogSoftmax add in FP32?", _unary("LogSoftmax", axes="<axis=-1>"), _normal(1024, 3.0)
    ),
    "bias_softmax": Probe(
        "is a mask added inside Softmax?",
        "g (T[N,256] x) => (T[N,256] y) { h = Add (x, mask)\n y = Softmax <axis=-1> (h) }",
        _normal(256, 30.0),
        {"mask": np.where(np.arange(256) % 3, 0, -3000).astype(np.float32)[None]},
    ),
    # Subnormal numbers.
    "subnormal_product": Probe(
        "is a product that is subnormal kept?",
        "g (T[N,256] x) => (T[N,256] y) { y = Mul (x, tiny) }",
        _uniform(256, 0.5, 1),
        {"tiny": np.array([2.0**-16], np.float32)},
    ),
    "subnormal_input": Probe(
        "is an input that is subnormal kept?",
        "g (T[N,256] x) => (T[N,256] y) { y = Mul (x, large) }",
        _uniform(256, 2.0**-22, 2.0**-16),
        {"large": np.array([4096.0], np.float32)},
    ),
    "subnormal_matmul": Probe(
        "do Tensor Cores keep subnormal operands?",
        "g (T[N,256] x) => (T[N,64] y) { y = MatMul (x, w) }",
        _uniform(256, 2.0**-22, 2.0**-16),
        {"w": _weights(256, 64, scale=16.0)},
    ),
    "subnormal_sum": Probe(
        "does a sum of subnormal numbers arrive?",
        _unary("ReduceSum", 4096, "input"),
        _uniform(4096, 2.0**-24, 2.0**-18),
    ),
    # Products.
    "matmul": Probe(
        "does MatMul add in FP32?",
        "g (T[N,1024] x) => (T[N,64] y) { y = MatMul (x, w) }",
        _normal(1024),
        {"w": _weights(1024, 64)},
    ),
    "matmul_offset": Probe(
        "does MatMul add in FP32 where terms have one sign?",
        "g (T[N,4096] x) => (T[N,32] y) { y = MatMul (x, w) }",
        _uniform(4096, 0, 1),
        {"w": np.abs(_weights(4096, 32))},
    ),
    "matmul_scaled": Probe(
        "is a factor behind MatMul applied before the result is rounded?",
        "g (T[N,1024] x) => (T[N,64] y) { h = MatMul (x, w)\n y = Mul (h, factor) }",
        _uniform(1024, 50, 100),
        {"w": np.ones((1024, 64), np.float32), "factor": np.array(2.0**-10, np.float32)},
    ),
    "gemm_bias": Probe(
        "is a bias behind MatMul added before the result is rounded?",
        "g (T[N,1024] x) => (T[N,64] y) { h = MatMul (x, w)\n y = Add (h, bias) }",
        _uniform(1024, 60, 66),
        {"w": np.ones((1024, 64), np.float32), "bias": np.full(64, -60000, np.float32)},
    ),
    "conv": Probe(
        "does Conv add in FP32?",
        "g (T[N,16,8,8] x) => (T[N,16,8,8] y) { y = Conv <pads=[1,1,1,1]> (x, w) }",
        _images(8, 16),
        {"w": _weights(16, 16, 3, 3, scale=0.08)},
    ),
    "depthwise_conv": Probe(
        "does a depthwise Conv add in FP32?",
        "g (T[N,16,8,8] x) => (T[N,16,4,4] y) { y = Conv <group=16> (x, w) }",
        _images(8, 16),
        {"w": _weights(16, 1, 5, 5, scale=0.2)},
    ),
    "conv_transpose": Probe(
        "does ConvTranspose add in FP32?",
        "g (T[N,16,4,4] x) => (T[N,8,9,9] y) { y = ConvTranspose <strides=[2,2]> (x, w) }",
        _images(4, 16),
        {"w": _weights(16, 8, 3, 3, scale=0.1)},
    ),
    # Pooling and normalizations.
    "global_average": Probe(
        "does GlobalAveragePool add in FP32?",
        "g (T[N,4,64,64] x) => (T[N,4,1,1] y) { y = GlobalAveragePool (x) }",
        _images(64, 4, 100.0),
    ),
    "average_pool": Probe(
        "does AveragePool add in FP32?",
        "g (T[N,4,32,32] x) => (T[N,4,4,4] y) "
        "{ y = AveragePool <kernel_shape=[8,8], strides=[8,8]> (x) }",
        _images(32, 4),
    ),
    "layer_norm": Probe(
        "does LayerNormalization compute in FP32?",
        "g (T[N,256] x) => (T[N,256] y) "
        "{ y = LayerNormalization <axis = -1, epsilon = 0.001> (x, gain, bias) }",
        _normal(256, 300.0, 50.0),
        _NORM,
    ),
    "layer_norm_formula": Probe(
        "is a normalization that is written as a formula computed in FP32?",
        """
        g (T[N,256] x) => (T[N,256] y) <int64[1] axis = {-1}> {
            mean = ReduceMean (x, axis)
            d = Sub (x, mean)
            sq = Pow (d, two)
            var = ReduceMean (sq, axis)
            safe = Add (var, eps)
            std = Sqrt (safe)
            n = Div (d, std)
            scaled = Mul (n, gain)
            y = Add (scaled, bias)
        }
        """,
        _normal(256, 300.0),
        {**_NORM, "two": np.array(2, np.float32), "eps": np.array(0.001, np.float32)},
    ),
    "batch_norm": Probe(
        "does BatchNormalization compute in FP32?",
        "g (T[N,8,8,8] x) => (T[N,8,8,8] y) "
        "{ y = BatchNormalization <epsilon = 0.001> (x, gain, bias, mean, var) }",
        _images(8, 8, 100.0),
        {
            "gain": np.ones(8, np.float32),
            "bias": np.zeros(8, np.float32),
            "mean": np.full(8, 30, np.float32),
            "var": np.full(8, 10000, np.float32),
        },
    ),
    # Functions of one value.
    "gelu": Probe(
        "are the steps of GELU rounded?",
        """
        g (T[N,256] x) => (T[N,256] y) {
            a = Div (x, root)
            b = Erf (a)
            c = Add (b, one)
            d = Mul (x, c)
            y = Mul (d, half)
        }
        """,
        _normal(256, 2.0),
        {
            "root": np.array(np.sqrt(2), np.float32),
            "one": np.array(1, np.float32),
            "half": np.array(0.5, np.float32),
        },
    ),
    "sigmoid": Probe("is Sigmoid rounded once?", _unary("Sigmoid", 256), _normal(256, 6.0)),
    "tanh": Probe("is Tanh rounded once?", _unary("Tanh", 256), _normal(256, 2.0)),
}
