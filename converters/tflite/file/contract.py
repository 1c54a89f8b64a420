"""The promise that a .tflite file makes about FP16: the arithmetic that its runtime may use."""

from tfmp.converters.tflite.file.reader import TFLiteModel

# tensorflow/lite/tools/optimize/reduced_precision_metadata.h: an inference type, then "acc" and
# an accumulation type. XNNPACK reads it before it picks FP16 kernels on an ARM CPU.
PROMISE = "reduced_precision_support"
_PREFIX = b"fp16acc"

# The effect of each promise on hardware, for reports.
MEANING = {
    "fp16": "allows FP16 sums: GPUs compute in FP16, and so do ARM CPUs with FP16 arithmetic",
    "fp32": "allows FP32 sums only: CPUs compute in FP32, GPUs still compute in FP16",
}


def promise(precision: str) -> bytes:
    """The content of the metadata `PROMISE` of a file that allows sums in that precision."""
    return _PREFIX + precision.encode()


def accumulation(model: TFLiteModel) -> str | None:
    """The sums that the file allows: "fp16", "fp32", or None when it says nothing."""
    value = model.metadata.get(PROMISE, b"")
    return value.removeprefix(_PREFIX).decode() if value.startswith(_PREFIX) else None
