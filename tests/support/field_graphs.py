"""ONNX models that a converter gives back as files which no checker or runtime accepts."""

from collections.abc import Callable

import numpy as np
import onnx
from field_case import FieldCase, Generator, normal, weights
from onnx_graphs import parse

from tfmp.converters.shared.tensors import Batch


def upsampling() -> onnx.ModelProto:
    return parse(
        """
        agraph (float[N, 3, 12, 12] image) => (float[N, 3, 24, 24] large)
        <float[0] none = {}, float[4] scales = {1, 1, 2, 2}> {
            c = Conv <pads = [1, 1, 1, 1]> (image, w1)
            up = Resize <mode = "linear"> (c, none, scales)
            r = Relu(up)
            large = Conv <pads = [1, 1, 1, 1]> (r, w2)
        }
        """,
        **weights(21, w1=(8, 3, 3, 3), w2=(3, 8, 3, 3)),
    )


def casts() -> onnx.ModelProto:
    return parse(
        """
        agraph (int64[N, 6] ids) => (float[N, 6, 8] out) <float limit = {3}> {
            e = Gather(table, ids)
            f = Cast <to = 1> (e)
            p = Pow(f, limit)
            g = Cast <to = 1> (p)
            out = MatMul(g, w)
        }
        """,
        **weights(22, table=(40, 16), w=(16, 8)),
    )


def token_ids(low: int, high: int, *shape: int) -> Callable[[Generator, int], Batch]:
    def draw(generator: Generator, samples: int) -> Batch:
        return {"ids": generator.integers(low, high, (samples, *shape))}

    return draw


def merged_decoder() -> onnx.ModelProto:
    """Both branches capture what the outer graph computes, as Optimum's merged decoders do."""
    return parse(
        """
        agraph (float[N, 4, 16] hidden, float[N, 4, 16] past, bool use_past)
            => (float[N, 4, 12] logits)
        <float one = {1}> {
            q = MatMul(hidden, wq)
            state = If (use_past) <
                then_branch = with_past () => (float[N, 4, 16] a) {
                    k = MatMul(past, wk)
                    s = Add(q, k)
                    a = Tanh(s)
                },
                else_branch = without () => (float[N, 4, 16] b) {
                    k0 = MatMul(hidden, wk)
                    t = Add(q, k0)
                    u = Add(t, one)
                    b = Sigmoid(u)
                }
            >
            logits = MatMul(state, head)
        }
        """,
        **weights(23, wq=(16, 16), wk=(16, 16), head=(16, 12)),
    )


def decoder_inputs(generator: Generator, samples: int) -> Batch:
    both = generator.standard_normal((2, samples, 4, 16)).astype(np.float32)
    return {"hidden": both[0], "past": both[1], "use_past": np.array(True)}


def blocked_residual() -> onnx.ModelProto:
    return parse(
        """
        agraph (float[N, 6, 32] tokens) => (float[N, 6, 8] out)
        <int64[1] last = {-1}, float two = {2}, float eps = {1e-6}> {
            a = MatMul(tokens, w1)
            x = Add(tokens, a)
            sq = Pow(x, two)
            var = ReduceMean(sq, last)
            safe = Add(var, eps)
            rms = Sqrt(safe)
            n = Div(x, rms)
            g = Mul(n, gain)
            y = Add(x, g)
            out = MatMul(y, head)
        }
        """,
        **weights(24, w1=(32, 32), head=(32, 8)),
        gain=np.linspace(0.5, 1.5, 32, dtype=np.float32),
    )


T5_BLOCKED = ("Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul")


def paddle_text_detector() -> onnx.ModelProto:
    """An open size is -1, and a recorded shape contradicts the one that follows from the inputs."""
    model = parse(
        """
        agraph (float[N, 3, H, W] x) => (float[N, 1, H, W] maps) {
            c = Conv <pads = [1, 1, 1, 1]> (x, w1)
            r = Relu(c)
            d = Conv <pads = [1, 1, 1, 1]> (r, w2)
            maps = Sigmoid(d)
        }
        """,
        **weights(25, w1=(8, 3, 3, 3), w2=(1, 8, 3, 3)),
    )
    known = onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, [-1, 8, 32, -1])
    model.graph.value_info.append(known)
    for value in (*model.graph.input, *model.graph.output):
        for place in (0, 2, 3):
            value.type.tensor_type.shape.dim[place].dim_value = -1
    return model


def super_resolution() -> onnx.ModelProto:
    """Input and output share the names of their sizes, though the output is twice as large."""
    return parse(
        """
        agraph (float[N, 3, H, W] image) => (float[N, 3, H, W] large)
        <float[0] none = {}, float[4] scales = {1, 1, 2, 2}> {
            c = Conv <pads = [1, 1, 1, 1]> (image, w1)
            r = Relu(c)
            up = Resize <mode = "nearest"> (r, none, scales)
            d = Conv <pads = [1, 1, 1, 1]> (up, w2)
            e = Relu(d)
            large = Conv <pads = [1, 1, 1, 1]> (e, w3)
        }
        """,
        **weights(26, w1=(3, 3, 3, 3), w2=(3, 3, 3, 3), w3=(3, 3, 3, 3)),
    )


def half_already() -> onnx.ModelProto:
    """One part is FP16, between casts, as an earlier conversion leaves it."""
    return parse(
        """
        agraph (float[N, 16] x) => (float[N, 4] y) {
            a = MatMul(x, w1)
            h = Cast <to = 10> (a)
            b = Relu(h)
            c = Clip(b, low, high)
            f = Cast <to = 1> (c)
            y = MatMul(f, w2)
        }
        """,
        **weights(27, w1=(16, 16), w2=(16, 4)),
        low=np.array(0, np.float16),
        high=np.array(6, np.float16),
    )


CASES = [
    FieldCase(
        "microsoft/onnxruntime#14827",
        "a model with Resize becomes invalid",
        "PASS",
        upsampling,
        normal("image", 3, 12, 12),
    ),
    FieldCase(
        "microsoft/onnxconverter-common#320",
        "a Cast to float32 makes the file invalid",
        "PASS",
        casts,
        token_ids(0, 40, 6),
    ),
    FieldCase(
        "microsoft/onnxconverter-common#276",
        "casts that nothing reads, and casts that read themselves",
        "PASS",
        half_already,
        normal("x", 16),
    ),
    FieldCase(
        "microsoft/onnxruntime#20189",
        "a merged decoder cannot be converted",
        "PASS",
        merged_decoder,
        decoder_inputs,
        samples=800,
    ),
    FieldCase(
        "microsoft/onnxruntime#11245",
        "with operators kept in FP32, Add gets two types",
        "PASS",
        blocked_residual,
        normal("tokens", 6, 32),
        options={"keep_fp32": [f"^{name}$" for name in T5_BLOCKED]},
    ),
    FieldCase(
        "PaddlePaddle/PaddleOCR#7283",
        "an export by PaddlePaddle cannot be converted",
        "PASS",
        paddle_text_detector,
        normal("x", 3, 24, 40),
        samples=400,
    ),
    FieldCase(
        "microsoft/onnxruntime#14582",
        "shape mismatch when a buffer is used again",
        "PASS",
        super_resolution,
        normal("image", 3, 10, 14),
    ),
]
