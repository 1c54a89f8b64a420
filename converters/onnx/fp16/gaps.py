"""What runtimes cannot do in FP16 although ONNX allows it: the exceptions to typing by schema.

A file has to load wherever it is taken, so what stops it from loading counts for every target. An
op that a runtime would only run elsewhere or not optimize counts where that runtime is the target.
"""

from dataclasses import dataclass
from functools import cache

CPU, CUDA, TENSORRT = "cpu", "cuda", "tensorrt"

# Runtimes by the short name that a target has; "any" stands for no particular one.
RUNTIMES = {
    CPU: "ONNX Runtime's CPU provider",
    CUDA: "ONNX Runtime's CUDA provider",
    TENSORRT: "TensorRT",
}
ANY = "any"
TARGETS = (ANY, *RUNTIMES)


@dataclass(frozen=True)
class Gap:
    """One op that a runtime cannot run in FP16.

    Attributes:
        op_type: in the default domain.
        runtime: which one cannot: a key of `RUNTIMES`.
        why: what it does instead, as a user reads it.
        source: where that was seen.
        stops_loading: the runtime refuses the whole file.
        before: only in opsets older than this one; None for all.
    """

    op_type: str
    runtime: str
    why: str
    source: str
    stops_loading: bool = False
    before: int | None = None

    def describe(self) -> str:
        """The reason to keep the op in FP32."""
        return f"{RUNTIMES[self.runtime]} {self.why}"

    def counts(self, opset: int, target: str) -> bool:
        """Whether it matters for files of this opset that are made for `target`."""
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


@cache
def gap_of(op_type: str, opset: int, target: str = ANY) -> Gap | None:
    """The first gap that keeps an op of the default domain in FP32, if there is one.

    Args:
        op_type: of the default domain.
        opset: of the model.
        target: one of `TARGETS`; where its files are taken.
    """
    found = (gap for gap in GAPS if gap.op_type == op_type and gap.counts(opset, target))
    return next(found, None)
