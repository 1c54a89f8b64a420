"""The bytes of a .tflite file: constants in FP16, in FP32 and of other types."""

from dataclasses import dataclass

from tfmp.converters.tflite.file.reader import TFLiteModel


@dataclass(frozen=True)
class SizeAccount:
    """The bytes of a file by kind of constant.

    Attributes:
        file_bytes: size of the whole file.
        fp16_bytes: size of the float16 constants.
        fp32_bytes: size of the float32 and float64 constants.
    """

    file_bytes: int
    fp16_bytes: int
    fp32_bytes: int

    def __str__(self) -> str:
        text = f"{_size(self.file_bytes)}: {_size(self.fp16_bytes)} of FP16 weights"
        if self.fp32_bytes:
            text += f", {_size(self.fp32_bytes)} of FP32 constants"
        return text


def account(model: TFLiteModel) -> SizeAccount:
    """Adds up the constants of a file; shared buffers count once."""
    totals = {"float16": 0, "float32": 0, "float64": 0}
    for tensor in model.constants():
        if tensor.spec.dtype in totals:
            totals[tensor.spec.dtype] += tensor.nbytes
    return SizeAccount(
        file_bytes=model.path.stat().st_size,
        fp16_bytes=totals["float16"],
        fp32_bytes=totals["float32"] + totals["float64"],
    )


def _size(nbytes: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes} bytes"
