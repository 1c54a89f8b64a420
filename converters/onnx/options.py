"""The options of an ONNX file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfmp.converters.onnx.fp16 import ANY, EVERY, check_targets
from tfmp.converters.shared.options import option


def _check_opset(opset: Any) -> None:
    if opset is not None:
        from tfmp.converters.onnx.export import check_opset

        check_opset(opset)


@dataclass(frozen=True)
class OnnxOptions:
    """Options of ONNX files; the `help` of each is its meaning."""

    keep_fp32: Sequence[str] = option(
        (),
        "Nodes, Keras layers or op types that stay in FP32. Repeatable.",
        metavar="REGEX",
    )
    opset: int | None = option(
        None,
        "ONNX operator set, 13 to 23 [default: 18].",
        metavar="N",
        check=_check_opset,
    )
    external_data: bool = option(
        False,
        "Write the weights to a second file (past 2 GiB always).",
    )
    target: Sequence[str] = option(
        (),
        "Target runtime: ort-cpu, ort-cuda, tensorrt, webgpu or all. Ops without an FP16 kernel "
        "in the first stay in FP32; each is judged. Repeatable [default: any, judged as ort-cuda].",
        metavar="RUNTIME",
        check=check_targets,
    )
    fp16_io: bool = option(
        False,
        "Make float32 inputs and outputs float16.",
    )
    fp16_edges: bool = option(
        False,
        "Also compute both ends of the model, and nodes beside large added constants, in FP16.",
    )

    @property
    def kernels(self) -> str:
        """The runtime whose FP16 kernels the file is made for: the first target."""
        first = self.target[0] if self.target else ANY
        return ANY if first == EVERY else first
