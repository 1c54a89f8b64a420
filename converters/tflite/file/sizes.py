"""The bytes of a .tflite file: constants that became FP16, and those that did not, with reasons."""

from dataclasses import dataclass

from tfmp.converters.tflite.file.reader import Tensor, TFLiteModel, layer_of


@dataclass(frozen=True)
class KeptConstant:
    """A float constant that stayed in more than 16 bits.

    Attributes:
        name: its tensor's name.
        layer: the Keras layer that it comes from; "" when unknown.
        nbytes: its size in bytes.
        reason: reason why it is not FP16.
    """

    name: str
    layer: str
    nbytes: int
    reason: str


@dataclass(frozen=True)
class SizeAccount:
    """The bytes of a file by kind of constant.

    Attributes:
        file_bytes: size of the whole file.
        fp16_bytes: size of the float16 constants.
        fp32_bytes: size of the float32 and float64 constants.
        other_bytes: size of the integer, boolean and string constants.
        kept: the float constants that are not FP16, largest first.
    """

    file_bytes: int
    fp16_bytes: int
    fp32_bytes: int
    other_bytes: int
    kept: tuple[KeptConstant, ...]

    def __str__(self) -> str:
        text = f"{_size(self.file_bytes)}: {_size(self.fp16_bytes)} of FP16 weights"
        if self.fp32_bytes:
            text += f", {_size(self.fp32_bytes)} of FP32 constants"
        return text


def account(model: TFLiteModel) -> SizeAccount:
    """Adds up the constants of a file; shared buffers count once."""
    totals = {"float16": 0, "float32": 0, "float64": 0}
    other = 0
    kept = []
    for tensor in model.constants():
        if tensor.spec.dtype in totals:
            totals[tensor.spec.dtype] += tensor.nbytes
        else:
            other += tensor.nbytes
        if tensor.spec.dtype in ("float32", "float64"):
            kept.append(_kept(tensor, model))
    return SizeAccount(
        file_bytes=model.path.stat().st_size,
        fp16_bytes=totals["float16"],
        fp32_bytes=totals["float32"] + totals["float64"],
        other_bytes=other,
        kept=tuple(sorted(kept, key=lambda constant: -constant.nbytes)),
    )


def _kept(tensor: Tensor, model: TFLiteModel) -> KeptConstant:
    index = model.tensors[tensor.subgraph].index(tensor)
    readers = sorted(
        {
            operator.name
            for operator in model.operators
            if operator.subgraph == tensor.subgraph and index in operator.inputs
        }
    )
    if readers:
        reason = f"TensorFlow's converter does not round operands of {', '.join(readers)}"
    else:
        reason = "it is an output of the model"
    return KeptConstant(tensor.spec.name, layer_of(tensor.spec.name), tensor.nbytes, reason)


def _size(nbytes: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes} bytes"
