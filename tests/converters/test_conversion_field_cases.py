"""Public reports of FP16 and export trouble, rebuilt: each gets a valid file, with its verdict."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse, weights

from tfmp.converters import convert
from tfmp.converters.shared.sessions import cpu_session

GENERATOR = np.random.default_rng(7)


def normal(samples: int, *shape: int) -> np.ndarray:
    return GENERATOR.standard_normal((samples, *shape)).astype(np.float32)


def t5_feed_forward() -> onnx.ModelProto:
    """Two large branches are multiplied, between root-mean-square normalizations."""
    return parse(
        """
        agraph (float[N, 8, 64] tokens) => (float[N, 8, 16] out)
        <int64[1] last = {-1}, float two = {2}, float eps = {1e-6}, float gain = {220}> {
            n = Div(tokens, Sqrt(Add(ReduceMean(Pow(tokens, two), last), eps)))
            both = Mul(Mul(Relu(MatMul(n, w1)), gain), Mul(MatMul(n, w2), gain))
            x = Add(tokens, MatMul(both, w3))
            m = Div(x, Sqrt(Add(ReduceMean(Pow(x, two), last), eps)))
            out = MatMul(m, head)
        }
        """,
        **weights(8, w1=(64, 128), w2=(64, 128), w3=(128, 64), head=(64, 16)),
    )


def layer_norm() -> onnx.ModelProto:
    """In the nodes that PyTorch exports before opset 17, of large numbers."""
    return parse(
        """
        agraph (float[N, 8, 128] tokens) => (float[N, 8, 8] out)
        <int64[1] last = {-1}, float two = {2}, float eps = {1e-5}, float scale = {3000}> {
            x = Add(tokens, Mul(MatMul(tokens, w), scale))
            d = Sub(x, ReduceMean(x, last))
            n = Div(d, Sqrt(Add(ReduceMean(Pow(d, two), last), eps)))
            out = MatMul(n, head)
        }
        """,
        **weights(12, w=(128, 128), head=(128, 8)),
    )


def large_constants() -> onnx.ModelProto:
    return parse(
        """
        agraph (float[N, 16] seconds) => (float[N, 4] out)
        <float rate = {22050}, float[1, 16] origin = {
            0, 20000, 30000, 40000, 50000, 60000, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}> {
            out = MatMul(Div(Sub(Mul(seconds, rate), origin), rate), head)
        }
        """,
        **weights(11, head=(16, 4)),
    )


def half_already() -> onnx.ModelProto:
    """One part is FP16, between casts, as an earlier conversion leaves it."""
    return parse(
        """
        agraph (float[N, 16] x) => (float[N, 4] y) {
            c = Clip(Relu(Cast <to = 10> (MatMul(x, w1))), low, high)
            y = MatMul(Cast <to = 1> (c), w2)
        }
        """,
        **weights(27, w1=(16, 16), w2=(16, 4)),
        low=np.array(0, np.float16),
        high=np.array(6, np.float16),
    )


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
                    a = Tanh(Add(q, MatMul(past, wk)))
                },
                else_branch = without () => (float[N, 4, 16] b) {
                    b = Sigmoid(Add(Add(q, MatMul(hidden, wk)), one))
                }
            >
            logits = MatMul(state, head)
        }
        """,
        **weights(23, wq=(16, 16), wk=(16, 16), head=(16, 12)),
    )


def paddle_text_detector() -> onnx.ModelProto:
    """An open size is -1, and a recorded shape contradicts the one that follows from the inputs."""
    model = parse(
        """
        agraph (float[N, 3, H, W] x) => (float[N, 1, H, W] maps) {
            r = Relu(Conv <pads = [1, 1, 1, 1]> (x, w1))
            maps = Sigmoid(Conv <pads = [1, 1, 1, 1]> (r, w2))
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
            r = Relu(Conv <pads = [1, 1, 1, 1]> (image, w1))
            up = Resize <mode = "nearest"> (r, none, scales)
            large = Conv <pads = [1, 1, 1, 1]> (Relu(Conv <pads = [1, 1, 1, 1]> (up, w2)), w3)
        }
        """,
        **weights(26, w1=(3, 3, 3, 3), w2=(3, 3, 3, 3), w3=(3, 3, 3, 3)),
    )


SECONDS = GENERATOR.uniform(0.05, 2.5, (96, 16)).astype(np.float32)
DECODED = {"hidden": normal(800, 4, 16), "past": normal(800, 4, 16), "use_past": np.array(True)}

# Model, samples, and the verdicts on the FP16 file and, behind a FAIL, on the mixed one.
CASES = {
    # A T5 encoder gives NaN on CUDA.
    "microsoft/onnxruntime#15752": (t5_feed_forward, {"tokens": normal(96, 8, 64)}, "FAIL PASS"),
    # Layer normalization in FP16 warns of overflow in Reduce and Pow.
    "pytorch/TensorRT#4061": (layer_norm, {"tokens": normal(96, 8, 128)}, "FAIL PASS"),
    # Constants over 10,000 are cut to 10,000.
    "microsoft/onnxconverter-common#295": (large_constants, {"seconds": SECONDS}, "PASS"),
    # Casts that nothing reads, and casts that read themselves.
    "microsoft/onnxconverter-common#276": (half_already, {"x": normal(96, 16)}, "PASS"),
    # A merged decoder cannot be converted.
    "microsoft/onnxruntime#20189": (merged_decoder, DECODED, "PASS"),
    # An export by PaddlePaddle cannot be converted.
    "PaddlePaddle/PaddleOCR#7283": (paddle_text_detector, {"x": normal(400, 3, 24, 40)}, "PASS"),
    # Shape mismatch when a buffer is used again.
    "microsoft/onnxruntime#14582": (super_resolution, {"image": normal(96, 3, 10, 14)}, "PASS"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_report_gets_its_verdict_in_fp16_and_mixed_where_it_fails(case: str, tmp_path: Path):
    make: Callable[[], onnx.ModelProto]
    make, data, verdicts = CASES[case]
    onnx.save(make(), tmp_path / "model.onnx")
    found = []
    for precision in ("fp16", "mixed"):
        path = tmp_path / f"{precision}.onnx"
        artifact = convert(tmp_path / "model.onnx", "onnx", path, precision, data=data)
        onnx.checker.check_model(str(path), full_check=True)
        onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True)
        cpu_session(path)
        found.append(artifact.report.verdict.value)
        if found == ["PASS"]:
            break
    assert found == verdicts.split()
