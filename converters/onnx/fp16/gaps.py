"""Ops that runtimes cannot run in 16 bits although ONNX allows it: exceptions to typing by schema.

A file has to load on every runtime, so an op that stops a runtime from loading it counts for every
target. An op that a runtime would only run elsewhere, or not optimize, counts for that target only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tfmp.converters.shared.options import check_choice

CPU, CUDA, TENSORRT, WEBGPU = "ort-cpu", "ort-cuda", "tensorrt", "webgpu"

# Runtimes by their short names as targets; "any" stands for all of them.
RUNTIMES = {
    CPU: "ONNX Runtime's CPU provider",
    CUDA: "ONNX Runtime's CUDA provider",
    TENSORRT: "TensorRT",
    WEBGPU: "ONNX Runtime's WebGPU provider",
}
ANY = "any"
TARGETS = (ANY, *RUNTIMES)

# The target that stands for every runtime.
EVERY = "all"


@dataclass(frozen=True)
class Gap:
    """One op that a runtime cannot run in FP16.

    Attributes:
        op_type: the op, of the default domain.
        runtime: the runtime, a key of `RUNTIMES`.
        why: the runtime's behaviour, in words that follow its name.
        source: evidence for that behaviour.
        stops_loading: whether the runtime refuses the whole file, or fails in every run.
        before: the first opset without this gap; None if all opsets have it.
        reduces: whether only nodes with a reduction have it, which add to what stands there.
    """

    op_type: str
    runtime: str
    why: str
    source: str
    stops_loading: bool = False
    before: int | None = None
    reduces: bool = False

    def describe(self) -> str:
        """The reason to keep the op in FP32."""
        return f"{RUNTIMES[self.runtime]} {self.why}"

    def counts(self, opset: int, target: str) -> bool:
        """Whether the gap matters for files of this opset that are made for `target`."""
        old = self.before is None or opset < self.before
        return old and (self.stops_loading or self.runtime == target)


_KERNELS = (
    "ONNX Runtime, docs/OperatorKernels.md, written from the kernel registrations, section "
    "CUDAExecutionProvider (commit 001d12d, 2026)"
)


def _on_the_cpu(op_type: str, before: int | None = None) -> Gap:
    why = f"has a float32 kernel for {op_type} and none for FP16, which would run on the CPU"
    return Gap(op_type, CUDA, why, _KERNELS, before=before)


def _not_on_cuda(op_type: str) -> Gap:
    why = f"has no {op_type}: the CPU runs it, in FP32"
    return Gap(op_type, CUDA, why, _KERNELS)


GAPS = (
    Gap(
        "Attention",
        CPU,
        "cannot load Attention in FP16: it expands the op and types its parts inconsistently",
        "ONNX Runtime 1.26 on ONNX's backend node tests test_attention_*: 'Type parameter (T) of "
        "Optype (MatMul) bound to different types'",
        stops_loading=True,
    ),
    Gap(
        "EyeLike",
        CPU,
        "has no FP16 EyeLike",
        "ONNX Runtime 1.26, onnxruntime/core/providers/cpu/tensor/eye_like.cc: float, double and "
        "integers; test_eyelike_populate_off_main_diagonal: 'NOT_IMPLEMENTED'",
        stops_loading=True,
    ),
    Gap(
        "MeanVarianceNormalization",
        CPU,
        "cannot load MeanVarianceNormalization in FP16: its function adds a float32 epsilon",
        "onnx/onnx, onnx/defs/nn/defs.cc (1.19); shape inference: 'B has inconsistent type "
        "tensor(float)'",
        stops_loading=True,
    ),
    *(
        Gap(
            op_type,
            CPU,
            f"loads {op_type} with a reduction in FP16 and cannot run it",
            "ONNX Runtime 1.31, onnxruntime/core/providers/cpu/tensor/scatter.cc, scatter_nd.cc: "
            "'MLFloat16 data type is not supported with ScatterND opset 16 when reduction is add'",
            stops_loading=True,
            reduces=True,
        )
        for op_type in ("ScatterElements", "ScatterND")
    ),
    _on_the_cpu("Clip", before=12),
    _on_the_cpu("GridSample"),
    _on_the_cpu("RoiAlign"),
    *map(
        _not_on_cuda,
        """Acos Acosh Asin Asinh Atan Atanh Cosh Det GlobalLpPool Hardmax LpNormalization LpPool
        MaxRoiPool MaxUnpool Mean Sinh Tan Unique""".split(),
    ),
    Gap(
        "STFT",
        TENSORRT,
        "takes STFT in FP32 only",
        "onnx-tensorrt, docs/operators.md of TensorRT 10.15, column 'Supported Types'",
    ),
)


# The runtimes that have kernels for bfloat16, with the ops that have one. An op without a kernel
# keeps the runtime from loading the file.
BF16_OPS = {
    # The source of `_KERNELS`, at the opsets whose schemas have bfloat16.
    CUDA: frozenset(
        """Abs Add Attention AveragePool Cast CastLike Compress Concat ConstantOfShape Conv Div
        Dropout Erf Exp Expand Flatten Gather GatherElements GatherND Gelu Gemm HardSigmoid
        HardSwish Identity If IsInf IsNaN LayerNormalization Loop MatMul Max Min Mod Mul Neg Pow
        RMSNormalization ReduceSum Relu Reshape ReverseSequence RotaryEmbedding Scan
        ScatterElements ScatterND Shape Sigmoid Sign Size Slice Softmax Split Sqrt Squeeze Sub Sum
        Tanh Tile Transpose Trilu Unsqueeze Where""".split()
    ),
    # onnx-tensorrt, docs/operators.md of TensorRT 10.1 (commit 96e7811), column "Supported Types".
    TENSORRT: frozenset(
        """Abs Acos Acosh Add ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization
        Cast CastLike Ceil Celu Clip Concat ConstantOfShape Conv ConvTranspose Cos Cosh CumSum
        DepthToSpace Div Dropout Einsum Elu Equal Erf Exp Expand Flatten Floor Gather
        GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
        GreaterOrEqual GroupNormalization GRU HardSigmoid HardSwish Hardmax Identity If
        InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log
        LogSoftmax Loop LRN LSTM LpNormalization LpPool MatMul Max MaxPool Mean Min Mod Mul Neg
        OneHot Pad Pow PRelu Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
        ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
        ReverseSequence RNN Round Scan Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid
        Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum
        Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where""".split()
    ),
}


@cache
def without_bf16(op_type: str, target: str = ANY) -> str | None:
    """The reason to keep an op of the default domain out of bfloat16, if there is one.

    Args:
        op_type: an op of the default domain.
        target: runtime that the file will run on, `ANY` or one of `BF16_OPS`.
    """
    runtimes = BF16_OPS if target == ANY else (target,)
    found = (name for name in runtimes if op_type not in BF16_OPS[name])
    runtime = next(found, None)
    return f"{RUNTIMES[runtime]} has no {op_type} for bfloat16" if runtime else None


@cache
def gap_of(op_type: str, opset: int, target: str = ANY, reduces: bool = False) -> Gap | None:
    """The first gap that keeps an op of the default domain in FP32, if there is one.

    Args:
        op_type: an op of the default domain.
        opset: the model's opset.
        target: runtime that the file will run on, one of `TARGETS`.
        reduces: whether the node has a reduction.
    """
    named = (gap for gap in GAPS if gap.op_type == op_type and gap.reduces <= reduces)
    found = (gap for gap in named if gap.counts(opset, target))
    return next(found, None)


def check_targets(targets: str | Sequence[str]) -> None:
    """Raises `InputError` for a runtime that is not known."""
    for target in [targets] if isinstance(targets, str) else targets:
        check_choice("target", target, (*TARGETS, EVERY))
