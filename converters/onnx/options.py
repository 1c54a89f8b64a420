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
        "Regular expression for nodes, Keras layers or op types that stay in FP32. Repeatable.",
        metavar="REGEX",
    )
    opset: int | None = option(
        None,
        "Version of the ONNX operator set, from 13 to 23 [default: 18].",
        metavar="N",
        check=_check_opset,
    )
    external_data: bool = option(
        False,
        "Write the weights to a second file beside the ONNX file. Weights past 2 GiB always are.",
    )
    target: Sequence[str] = option(
        (),
        "Runtime that the ONNX file will run on: ort-cpu, ort-cuda, tensorrt, webgpu, or all. "
        "Ops for which the first one has no FP16 kernel stay in FP32. Each is judged by its own "
        "arithmetic, on a line of its own. Repeatable [default: any kernels, judged as ort-cuda].",
        metavar="RUNTIME",
        check=check_targets,
    )
    fp16_io: bool = option(
        False,
        "Make the float32 inputs and outputs of the ONNX file float16, too: beside an offset of "
        "1000, what is smaller than 0.25 is lost.",
    )
    fp16_edges: bool = option(
        False,
        "Compute in FP16 also before the first and behind the last matrix product, and beside "
        "added constants. By default these few nodes are FP32: offsets and raw inputs keep their "
        "digits.",
    )

    @property
    def kernels(self) -> str:
        """The runtime whose FP16 kernels the file is made for: the first target."""
        first = self.target[0] if self.target else ANY
        return ANY if first == EVERY else first
