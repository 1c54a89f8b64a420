"""What can be chosen of a .tflite file."""

from dataclasses import dataclass

from tfmp.converters.shared.options import option


@dataclass(frozen=True)
class TFLiteOptions:
    """Choices for TFLite files; each says in its `help` what it means."""

    dynamic_batch: bool = option(
        False, "Let the TFLite file take any number of samples.", flag="dynamic"
    )
    accumulate: str = option(
        "fp32",
        "Sums that the TFLite file allows: with fp16, ARM CPUs that have FP16 arithmetic compute "
        "in it throughout; with fp32 they compute in FP32. GPUs compute in FP16 anyway.",
        choices=("fp32", "fp16"),
    )
    allow_flex: bool = option(
        False,
        "Keep ops that TFLite lacks as TensorFlow ops: the file then needs the Flex delegate and "
        "runs neither in plain LiteRT nor on a GPU.",
    )
    repair: bool = option(
        False,
        "Rewrite what overflows in FP16 on --data so that it fits: values are kept smaller by "
        "powers of two, masks finite. What the model computes in FP32 stays the same.",
    )
