"""The promise a .tflite file makes about FP16: which arithmetic it allows its runtime to use."""

from pathlib import Path

from tfmp.converters.tflite.file.reader import TFLiteModel

# tensorflow/lite/tools/optimize/reduced_precision_metadata.h: an inference type, then "acc" and
# an accumulation type. XNNPACK reads it before it picks FP16 kernels on an ARM CPU.
METADATA_NAME = "reduced_precision_support"
_PREFIX = b"fp16acc"

# What a file with each promise makes its users' hardware do, for reports.
MEANING = {
    "fp16": "allows FP16 sums: ARM CPUs with FP16 arithmetic compute in FP16; so do GPUs",
    "fp32": "allows FP32 sums only: CPUs compute in FP32; GPUs still compute in FP16",
}


def accumulation(model: TFLiteModel) -> str | None:
    """What the file allows: "fp16", "fp32", or None when it says nothing."""
    if METADATA_NAME not in model.metadata:
        return None
    value = model.buffer(model.metadata[METADATA_NAME]).tobytes()
    return value.removeprefix(_PREFIX).decode() if value.startswith(_PREFIX) else None


def allow_accumulation(path: Path, precision: str) -> None:
    """Changes what an FP16 file allows, in place; a file that says nothing stays silent.

    TensorFlow's converter writes "fp16accfp32" whatever it is told when it reads a SavedModel.

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
