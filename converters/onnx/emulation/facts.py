"""The arithmetic of runtimes where it is not the one of the profile "gpu": facts with sources.

A fact is about a kind of arithmetic and the ops that have it. Whoever adds a fact names the public
file that it was read from, and the version or commit of that file.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from tfmp.converters.onnx.fp16 import CUDA, TENSORRT, WEBGPU

# They run .tflite files; their arithmetic on an ONNX file foretells theirs.
LITERT_GPU, LITERT_CPU = "litert-gpu", "litert-cpu"

Version = tuple[int, int]


class Kind(StrEnum):
    """Kinds of arithmetic."""

    SUMS = "sums"  # partial sums inside the ops are held in FP16
    STEPS = "steps"  # every step inside the ops is rounded to FP16, in the order of the kernel
    WIDE = "wide"  # ops that round between their steps elsewhere hold FP32 from end to end
    THREADS = "threads"  # threads each hold a partial sum in FP16, which they add by pairs
    FUSED = "fused"  # the optimizer makes one op of several nodes, which holds FP32 between them
    FLUSHED = "flushed"  # subnormal FP16 numbers are zero
    COARSE = "coarse"  # activations inside the ops are approximations of nine significant bits
    TF32 = "tf32"  # operands of ops in FP32 are rounded to TF32's ten fraction bits


@dataclass(frozen=True)
class Runtime:
    """A runtime with FP16 arithmetic of its own.

    Attributes:
        title: its name in sentences; {} is the place of the version.
        version: the version that is meant where none is named; "" where the facts know none.
    """

    title: str
    version: str = ""


RUNTIMES = {
    CUDA: Runtime("ONNX Runtime {} on CUDA", "1.26"),  # the last one for CUDA 12, which we pin
    TENSORRT: Runtime("TensorRT"),
    LITERT_GPU: Runtime("LiteRT's GPU backend"),
    LITERT_CPU: Runtime("LiteRT on CPUs that add in FP16, such as ARMv8.2"),
    WEBGPU: Runtime("ONNX Runtime's WebGPU provider"),
}


@dataclass(frozen=True)
class Fact:
    """One fact about a runtime.

    Attributes:
        runtime: a key of `RUNTIMES`.
        kind: of the arithmetic.
        ops: op types that it is about; those of the runtime's optimizer for FUSED, and for kernels
            of such ops. Empty for every op.
        what: the fact in words.
        source: public file and version that it was read from.
        before: the first version of the runtime without it; None where every version has it.
        fix: a way to run the file all the same, as a sentence without a full stop.
    """

    runtime: str
    kind: Kind
    ops: frozenset[str]
    what: str
    source: str
    before: Version | None = None
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.fix})" if self.fix else self.what


def _fact(
    runtime: str,
    kind: Kind,
    ops: str,
    what: str,
    source: str,
    before: Version | None = None,
    fix: str = "",
) -> Fact:
    return Fact(runtime, kind, frozenset(ops.split()), what, source, before, fix)


_ORT = "microsoft/onnxruntime, onnxruntime/"
_FUSIONS = f"{_ORT}core/optimizer/graph_transformer_utils.cc (commit 001290d), level 2"

FACTS = (
    _fact(
        CUDA,
        Kind.STEPS,
        "SkipLayerNormalization",
        "an addition before LayerNormalization becomes SkipLayerNormalization, which holds mean, "
        "mean square and their difference in FP16",
        f"{_ORT}contrib_ops/cuda/bert/skip_layer_norm_impl.cu and layer_norm.cuh (commit 0417156); "
        "kernels SkipLayerNormKernelSmall<half, ...> of the 1.26 library; FP32 since pull request "
        "28682 of May 2026",
        before=(1, 27),
        fix="Set the CUDA provider's option enable_skip_layer_norm_strict_mode to 1, or use ONNX "
        "Runtime 1.27",
    ),
    _fact(
        CUDA,
        Kind.STEPS,
        "CumSum",
        "CumSum adds in FP16",
        f"{_ORT}core/providers/cuda/math/cumsum_impl.cu (commit 08dc5af); kernel "
        "_CumSumKernel<half> of the 1.26 library",
    ),
    _fact(
        CUDA,
        Kind.STEPS,
        "ReduceMean ReduceLogSum ReduceLogSumExp ReduceSumSquare",
        "the sum inside ReduceMean, ReduceLogSum and ReduceLogSumExp is rounded to FP16, and so "
        "are exponentials, the squares of ReduceSumSquare, and the number of elements that a mean "
        "divides by",
        f"{_ORT}core/providers/cuda/reduction/reduction_ops.cc, ReduceComputeCore; kernels "
        "reduce_matrix_columns_kernel<half, half, float, ...> of the 1.26 library; "
        "microsoft/onnxconverter-common, issue 323",
    ),
    # A bias behind MatMul is no such fact: where both sizes of the weights are multiples of eight,
    # the product is rounded before the bias is added, and elsewhere mostly not. On an H100
    # (benchmarks/gpu, 1.31) the outputs of four models are those of this rule bit for bit.
    _fact(
        CUDA,
        Kind.FUSED,
        "FusedMatMul",
        "a factor before or behind MatMul is applied in FP32",
        f"{_FUSIONS}: MatMulScaleFusion, MatmulTransposeFusion; "
        f"{_ORT}core/optimizer/matmul_scale_fusion.cc (commit 02e42fa)",
    ),
    _fact(
        CUDA,
        Kind.COARSE,
        "GRU LSTM RNN",
        "recurrent ops approximate sigmoid and tanh",
        "benchmarks/gpu: four models with LSTM on an H100 (cuDNN 9.19) drift two to three times as "
        "far as with exact functions; with nine significant bits, as far as measured",
    ),
    _fact(
        CUDA,
        Kind.FUSED,
        "LayerNormalization SimplifiedLayerNormalization",
        "normalizations that are written as formulas are computed in FP32",
        f"{_FUSIONS}: LayerNormFusion, SimplifiedLayerNormFusion; kernel cuApplyLayerNorm<half, "
        "float, half, ...> of the 1.26 library",
    ),
    _fact(
        CUDA,
        Kind.FUSED,
        "BiasSoftmax",
        "a mask is added inside Softmax, in FP32",
        f"{_FUSIONS}: BiasSoftmaxFusion; kernel BiasSoftmaxWarpForward<half, half, float, ...> of "
        "the 1.26 library",
    ),
    _fact(
        CUDA,
        Kind.FUSED,
        "Gelu BiasGelu FastGelu QuickGelu",
        "the steps of GELU are not written to memory",
        f"{_FUSIONS}: GeluFusion, BiasGeluFusion, FastGeluFusion, QuickGeluFusion; "
        f"{_ORT}contrib_ops/cuda/math/bias_gelu_impl.cu (commit 16d2068), "
        "contrib_ops/cuda/bert/fast_gelu_impl.cu (commit 00d7763), whose inner roundings are not "
        "modelled",
    ),
    _fact(
        CUDA,
        Kind.TF32,
        "MatMul Gemm Conv ConvTranspose",
        "nodes in FP32 multiply numbers that are rounded to TF32, on compute capability 8 and "
        "later",
        "onnxruntime.ai, CUDA execution provider, option use_tf32 (default 1); "
        f"{_ORT}core/providers/cuda/cuda_execution_provider_info.cc",
        fix="Set the CUDA provider's option use_tf32 to 0",
    ),
    _fact(
        TENSORRT,
        Kind.TF32,
        "MatMul Gemm Conv ConvTranspose",
        "nodes in FP32 multiply numbers that are rounded to TF32",
        "docs.nvidia.com, TensorRT 11.0, Accuracy Considerations: TF32 is enabled by default",
        fix="Clear TensorRT's builder flag TF32",
    ),
    _fact(
        LITERT_GPU,
        Kind.SUMS,
        "MatMul Gemm Conv ConvTranspose Einsum",
        "matrix products and convolutions add in FP16",
        "google-ai-edge/ML Drift, ml_drift/common/precision.h (2026): F16; "
        "tensorflow/lite/delegates/gpu/common/tasks/reduce.cc (commit 0986032): reductions add in "
        "FP32",
        fix="LiteRT 2.2 and later: ask for the precision FP16 with FP32 accumulation",
    ),
    _fact(
        LITERT_CPU,
        Kind.SUMS,
        "MatMul Gemm Conv ConvTranspose Einsum AveragePool",
        "matrix products and convolutions add in FP16, one term after the other",
        "google/XNNPACK, src/f16-gemm/gen/f16-gemm-1x16-minmax-neonfp16arith-ld64.c (commit "
        "028aae4): vacc is float16x8_t, and vfmaq_lane_f16 adds one term to it",
        fix="Convert with --accumulate fp32",
    ),
    _fact(
        LITERT_GPU,
        Kind.FLUSHED,
        "",
        "subnormal numbers may be zero",
        "Khronos OpenCL extension specification, cl_khr_fp16: CL_FP_DENORM is optional for half",
    ),
    _fact(
        WEBGPU,
        Kind.SUMS,
        "MatMul Gemm Conv ConvTranspose Einsum AveragePool GlobalAveragePool",
        "matrix products, convolutions and average pooling add in FP16",
        f"{_ORT}core/providers/webgpu/math/matmul_packed.cc (commit 0031b54), gemm_utils.cc "
        "(commit 000ac28), nn/pool.cc (commit 065bfae): acc has the type of the operands",
    ),
    _fact(
        WEBGPU,
        Kind.THREADS,
        "ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp",
        "reductions square, exponentiate and add in FP16, and divide by a number of elements in "
        "FP16",
        f"{_ORT}core/providers/webgpu/reduction/reduction_ops.cc (commit 7dc1cd0), "
        "ReduceSharedProgram: bestValue has the type of the output",
    ),
    _fact(
        WEBGPU,
        Kind.THREADS,
        "Softmax",
        "Softmax rounds differences, exponentials and their sum to FP16",
        f"{_ORT}core/providers/webgpu/math/softmax.cc (commit 04488b7): thread_sum has the type "
        "of the operand",
    ),
    _fact(
        WEBGPU,
        Kind.STEPS,
        "CumSum",
        "CumSum adds in FP16",
        f"{_ORT}core/providers/webgpu/math/cum_sum.cc (commit 0e26b59): sum has the type of the "
        "output",
    ),
    _fact(
        WEBGPU,
        Kind.STEPS,
        "LayerNormalization",
        "LayerNormalization rounds 1 / deviation and its products to FP16",
        f"{_ORT}core/providers/webgpu/nn/layer_norm.cc (commit 007a78e): x_element_t(inv_std_dev)",
    ),
    _fact(
        WEBGPU,
        Kind.STEPS,
        "Log",
        "a logarithm is that to the base 2, rounded to FP16, times the logarithm of 2",
        "W3C, WebGPU Shading Language, Accuracy of Floating Point Expressions",
    ),
    _fact(
        WEBGPU,
        Kind.STEPS,
        "Softplus",
        "Softplus adds 1 to an exponential in FP16: below -8 it is zero",
        "kernel webgpu::Softplus of the 1.27 library",
    ),
    _fact(
        WEBGPU,
        Kind.WIDE,
        "GRU LSTM RNN",
        "recurrent ops have no kernel and run on the CPU in FP32",
        "profile of a session of onnxruntime-webgpu 1.27, which names the CPU for LSTM",
    ),
    _fact(
        WEBGPU,
        Kind.FLUSHED,
        "",
        "subnormal numbers may be zero",
        "gpuweb/cts, docs/fp_primer.md (commit 168b983), Subnormal Numbers",
    ),
)


@cache
def facts_of(runtime: str, version: Version | None = None) -> tuple[Fact, ...]:
    """The facts about a version of a runtime.

    Args:
        runtime: a key of `RUNTIMES`.
        version: of the runtime; None for facts of every version.
    """
    return tuple(
        fact
        for fact in FACTS
        if fact.runtime == runtime
        and (fact.before is None or (version is not None and version < fact.before))
    )


def ops_of(facts: Iterable[Fact], kind: Kind) -> frozenset[str]:
    """The ops that facts of one kind are about."""
    return frozenset(op for fact in facts if fact.kind is kind for op in fact.ops)
