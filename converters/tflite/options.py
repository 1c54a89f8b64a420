"""The options of a .tflite file."""

from dataclasses import dataclass

from tfmp.converters.shared.options import option


@dataclass(frozen=True)
class TFLiteOptions:
    """Options of TFLite files; the `help` of each is its meaning."""

    dynamic_batch: bool = option(
        False, "Leave the batch size of the TFLite file open.", flag="dynamic"
    )
    accumulate: str = option(
        "fp32",
        "Precision of sums on ARM CPUs with FP16 arithmetic; GPUs compute in FP16 anyway.",
        choices=("fp32", "fp16"),
    )
    allow_flex: bool = option(
        False,
        "Keep ops that TFLite lacks, for the Flex delegate.",
    )
    repair: bool = option(
        False,
        "Rewrite the layers that overflow or vanish in FP16 on --data.",
    )
    host_output_scaling: bool = option(
        False,
        "Write outputs without the offset and scale that --data shows; the application puts them "
        "back.",
    )
