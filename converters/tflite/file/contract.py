"""The promise that a .tflite file makes about FP16: the arithmetic that its runtime may use."""

from pathlib import Path

from tfmp.converters.tflite.file.reader import TFLiteModel

# tensorflow/lite/tools/optimize/reduced_precision_metadata.h: an inference type, then "acc" and
# an accumulation type. XNNPACK reads it before it picks FP16 kernels on an ARM CPU.
METADATA_NAME = "reduced_precision_support"
_PREFIX = b"fp16acc"

# The effect of each promise on hardware, for reports.
MEANING = {
    "fp16": "allows FP16 sums: GPUs compute in FP16, and so do ARM CPUs with FP16 arithmetic",
    "fp32": "allows FP32 sums only: CPUs compute in FP32, GPUs still compute in FP16",
}


def accumulation(model: TFLiteModel) -> str | None:
    """The sums that the file allows: "fp16", "fp32", or None when it says nothing."""
    if METADATA_NAME not in model.metadata:
        return None
    value = model.buffer(model.metadata[METADATA_NAME]).tobytes()
    return value.removeprefix(_PREFIX).decode() if value.startswith(_PREFIX) else None


def allow_accumulation(path: Path, precision: str) -> None:
    """Changes the sums that an FP16 file allows, in place; a file that says nothing is not changed.

    When TensorFlow's converter reads a SavedModel, it always writes "fp16accfp32".

    Args:
        path: a .tflite file.
        precision: "fp16" or "fp32".
    """
    model = TFLiteModel(path)
    if accumulation(model) in (None, precision):
        return
    start = model.buffer_position(model.metadata[METADATA_NAME]) + len(_PREFIX)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(precision.encode())  # as long as what it replaces
