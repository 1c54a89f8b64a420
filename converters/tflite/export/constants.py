"""Constants that FP16 cannot hold: values that clamp, vanish or lose digits, and their layers."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tfmp.converters.shared.tensors import flat_pieces
from tfmp.converters.tflite.file import TFLiteModel, layer_of
from tfmp.shared.numerics import FLOAT16


@dataclass(frozen=True)
class ConstantFinding:
    """A constant of which FP16 changes more than the last digits.

    Attributes:
        name: its tensor's name.
        layer: the Keras layer that it comes from; "" when unknown.
        size: number of its values.
        clamped: number of values beyond the largest FP16 number; the converter makes them +-65504.
        vanished: number of values other than zero that become zero.
        subnormal: number of values that lose digits below the smallest normal number.
        largest: largest magnitude.
        smallest: smallest magnitude other than zero.
    """

    name: str
    layer: str
    size: int
    clamped: int
    vanished: int
    subnormal: int
    largest: float
    smallest: float

    @property
    def serious(self) -> bool:
        """Whether a result can hardly survive it: a clamp, or a constant that is gone."""
        return self.clamped > 0 or (
            self.vanished > 0 and self.vanished + self.subnormal == self.size
        )

    def __str__(self) -> str:
        where = f"constant {self.name!r}" + (f" (layer {self.layer})" if self.layer else "")
        parts = []
        if self.clamped:
            beyond = f", the largest is {self.largest:.3g}" if self.largest > FLOAT16.max else ""
            parts.append(f"{self.clamped} of {self.size} values clamp to {FLOAT16.max:g}{beyond}")
        if self.vanished:
            parts.append(f"{self.vanished} of {self.size} values become 0")
        if self.subnormal:
            parts.append(f"{self.subnormal} of {self.size} values are subnormal and lose digits")
        return f"{where}: {'; '.join(parts)}"


def clamped(model: TFLiteModel) -> list[ConstantFinding]:
    """The constants of a file that are past the range of FP16, or were put at the end of it."""
    return [found for found in constant_findings(model, "float32", "float16") if found.clamped]


def constant_findings(model: TFLiteModel, *dtypes: str) -> tuple[ConstantFinding, ...]:
    """The constants of a file, of these dtypes, that FP16 harms, the worst first."""
    tensors = (tensor for tensor in model.constants() if tensor.spec.dtype in dtypes)
    return findings_in((tensor.spec.name, model.constant(tensor)) for tensor in tensors)


def findings_in(constants: Iterable[tuple[str, np.ndarray]]) -> tuple[ConstantFinding, ...]:
    """Those of these constants, by name, that FP16 harms, the worst first."""
    found = filter(None, (examine(name, values) for name, values in constants))
    return tuple(
        sorted(
            found,
            key=lambda f: (not f.serious, -f.clamped, -f.vanished / f.size, -f.subnormal / f.size),
        )
    )


def examine(name: str, values: np.ndarray) -> ConstantFinding | None:
    """The harm that FP16 does to these values; None if it only rounds them."""
    clamped = vanished = subnormal = 0
    largest, smallest = 0.0, np.inf
    # In FP32 the first number that 65504 is not the nearest to; in FP16 what clamping leaves.
    end = FLOAT16.max if values.dtype == np.float16 else FLOAT16.overflow_threshold
    for piece in flat_pieces(values):
        sizes = np.abs(piece)
        nonzero = sizes[sizes > 0]
        if not nonzero.size:
            continue
        largest, smallest = max(largest, float(nonzero.max())), min(smallest, float(nonzero.min()))
        clamped += int(np.count_nonzero(sizes >= end))
        gone = int(np.count_nonzero(nonzero <= FLOAT16.smallest_subnormal / 2))
        vanished += gone
        subnormal += int(np.count_nonzero(nonzero < FLOAT16.smallest_normal)) - gone
    if not (clamped or vanished or subnormal):
        return None
    harm = (values.size, clamped, vanished, subnormal, largest, smallest)
    return ConstantFinding(name, layer_of(name), *harm)
