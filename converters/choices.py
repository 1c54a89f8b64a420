"""What can be chosen of a conversion, by format, and what contradicts itself."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from tfmp.converters.onnx.fp16 import ANY, TARGETS
from tfmp.converters.report import check_choice
from tfmp.converters.shared.errors import InputError


@dataclass(frozen=True)
class OnnxOptions:
    """Choices for ONNX files.

    Attributes:
        keep_fp32: regular expressions over node names, Keras layers and op types that stay FP32.
        opset: version of the ONNX operator set; None for the default, or an ONNX model's own.
        external_data: write weights to a second file beside the model. Models past 2 GiB always do.
        fp16_io: let float32 inputs and outputs of the file be float16.
        target: where the file is taken: "any", "cpu", "cuda" or "tensorrt". Ops that this runtime
            has no FP16 kernel for stay FP32; for "any" only what could not be loaded.
    """

    keep_fp32: Sequence[str] = ()
    opset: int | None = None
    external_data: bool = False
    fp16_io: bool = False
    target: str = ANY


@dataclass(frozen=True)
class TFLiteOptions:
    """Choices for TFLite files.

    Attributes:
        dynamic_batch: let the file take any number of samples at a time; else one, or as many as
            the model fixes.
        accumulate: the sums that the file allows FP16 hardware, "fp32" or "fp16".
        allow_flex: keep ops that TFLite lacks as TensorFlow ops, which plain LiteRT cannot run.
        repair: rewrite what overflows in FP16 on `data`, so that it fits. The float32 outputs stay.
    """

    dynamic_batch: bool = False
    accumulate: str = "fp32"
    allow_flex: bool = False
    repair: bool = False


Options = OnnxOptions | TFLiteOptions


def choices_of(to: str, options: dict[str, Any]) -> Options:
    """The choices of a format, from options by name.

    Raises:
        InputError: a name that the format has no option of, or a value out of range.
    """
    kind = OnnxOptions if to == "onnx" else TFLiteOptions
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise InputError(
                f"{name} is no option of a conversion to {to}, received {name}={options[name]!r}; "
                f"its options: {', '.join(known)}."
            )
    if "opset" in options and options["opset"] is not None:
        from tfmp.converters.onnx.export import check_opset

        check_opset(options["opset"])
    if "target" in options:
        check_choice("target", options["target"], TARGETS)
    return kind(**options)


def check_precision(precision: str, choices: Options, data: Any) -> None:
    """Raises `InputError` where the options contradict the precision."""
    if precision == "fp32" and isinstance(choices, OnnxOptions):
        for name in ("keep_fp32", "fp16_io", "target"):
            if getattr(choices, name) not in ((), [], False, ANY):
                raise InputError(
                    f"{name} is about FP16 files, received precision='fp32'. Leave one of them out."
                )
    if isinstance(choices, TFLiteOptions) and choices.repair:
        if precision != "fp16":
            raise InputError(
                f"repair is about FP16 files, received precision={precision!r}. Leave it out."
            )
        if data is None:
            raise InputError(
                "repair measures what overflows on samples, received none. Pass data, or leave "
                "repair out."
            )
    if precision != "mixed":
        return
    if not isinstance(choices, OnnxOptions):
        raise InputError(
            "precision='mixed' is for ONNX files: TFLite's GPU path computes a whole file in one "
            "precision. Use precision='fp16' or to='onnx'."
        )
    if data is None:
        raise InputError(
            "precision='mixed' finds the nodes that need FP32 on samples, received none. Pass "
            "data, or use precision='fp16' and keep_fp32."
        )
