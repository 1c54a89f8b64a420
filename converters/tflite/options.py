"""The options of a .tflite file."""

from dataclasses import dataclass

from tfmp.converters.shared.options import option


@dataclass(frozen=True)
class TFLiteOptions:
    """Options of TFLite files; the `help` of each is its meaning."""

    dynamic_batch: bool = option(
        False, "Let the TFLite file take any number of samples at a time.", flag="dynamic"
    )
    accumulate: str = option(
        "fp32",
        "Precision of sums that the TFLite file allows. With fp16, ARM CPUs that have FP16 "
        "arithmetic use it throughout; with fp32 they compute in FP32. GPUs compute in FP16 in "
        "both cases.",
        choices=("fp32", "fp16"),
    )
    allow_flex: bool = option(
        False,
        "Keep ops that TFLite lacks as TensorFlow ops. The file then needs the Flex delegate and "
        "runs neither in plain LiteRT nor on a GPU.",
    )
    repair: bool = option(
        False,
        "Rewrite the layers that overflow in FP16 on --data so that they fit: their values are "
        "scaled by powers of two, and masks become finite. The FP32 results stay the same.",
    )
    host_output_scaling: bool = option(
        False,
        "Leave offset and scale of outputs that stand far from zero to the host: the file gives "
        "(y - offset) / scale, and its metadata (TFLITE_METADATA) hold both. Needs --data.",
    )
