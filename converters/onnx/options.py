"""What can be chosen of an ONNX file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfmp.converters.onnx.fp16 import ANY, TARGETS
from tfmp.converters.shared.options import option


def _check_opset(opset: Any) -> None:
    if opset is not None:
        from tfmp.converters.onnx.export import check_opset

        check_opset(opset)


@dataclass(frozen=True)
class OnnxOptions:
    """Choices for ONNX files; each says in its `help` what it means."""

    keep_fp32: Sequence[str] = option(
        (),
        "Regular expression: nodes, Keras layers or op types that stay in FP32. Repeatable.",
        metavar="REGEX",
    )
    opset: int | None = option(
        None,
        "Version of the ONNX operator set, 13 to 23 [default: 18].",
        metavar="N",
        check=_check_opset,
    )
    external_data: bool = option(
        False, "Write weights to a second file beside the ONNX file, as always past 2 GiB."
    )
    target: str = option(
        ANY,
        "Where the ONNX file is taken. Ops without an FP16 kernel in ONNX Runtime's CUDA provider "
        "or in TensorRT stay in FP32 there; with any, only what some runtime could not load.",
        choices=TARGETS,
    )
    fp16_io: bool = option(False, "Let the ONNX file's float32 inputs and outputs be float16.")
