"""What runtimes cannot do in FP16 although ONNX allows it: the exceptions to typing by schema.

A file has to load wherever it is taken, so every entry counts for every file.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """One op that a runtime cannot run in FP16.

    Attributes:
        op_type: in the default domain.
        runtime: which one cannot.
        why: what it does instead, as a user reads it.
        source: where that was seen.
    """

    op_type: str
    runtime: str
    why: str
    source: str

    def describe(self) -> str:
        """The reason to keep the op in FP32."""
        return f"{self.runtime} {self.why}"


GAPS = (
    Gap(
        "Attention",
        "ONNX Runtime's CPU provider",
        "cannot load Attention in FP16: it expands the op and types its parts inconsistently",
        "ONNX Runtime 1.26 on ONNX's backend node tests test_attention_*: 'Type parameter (T) of "
        "Optype (MatMul) bound to different types'",
    ),
    Gap(
        "EyeLike",
        "ONNX Runtime's CPU provider",
        "has no FP16 EyeLike",
        "ONNX Runtime 1.26, onnxruntime/core/providers/cpu/tensor/eye_like.cc: float, double and "
        "integers; test_eyelike_populate_off_main_diagonal: 'NOT_IMPLEMENTED'",
    ),
)

BY_OP = {gap.op_type: gap for gap in GAPS}
