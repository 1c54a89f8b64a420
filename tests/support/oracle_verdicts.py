"""Judges what an oracle computed by the rules for candidates, and runs models on all oracles."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from fp16_oracles import ORACLES

from tfmp.converters import convert
from tfmp.converters.drift import Comparison, OutputDrift
from tfmp.converters.drift.verdict import Verdict, judge
from tfmp.converters.intake.source import AnySource
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.atomic_file import temporary_folder

# Oracles that compute some models wrongly in any precision.
OWN_MISTAKES = ("WebGPU",)


@dataclass(frozen=True)
class Measured:
    """Drift of one oracle, and the verdict that follows from it.

    Attributes:
        drift: the largest relative L2 distance of an output; infinite where values are missing.
        verdict: by the default budget; None where the oracle did not run.
        error: why it did not run.
    """

    drift: float
    verdict: Verdict | None
    error: str = ""


def measured(source: AnySource, expected: Batch, received: Batch) -> Measured:
    """Judges what an oracle computed."""
    comparison = Comparison("oracle", source.outputs, source.outputs, None, source.hints)
    comparison.update(expected, received)
    outputs = comparison.outputs()
    return Measured(worst(outputs), judge(outputs, fp16="native").verdict)


def worst(outputs: tuple[OutputDrift, ...]) -> float:
    """The largest relative L2 distance; infinite where numbers became NaN or infinite."""
    found = [np.inf if o.nonfinite else o.rel_l2 for o in outputs if o.rel_l2 is not None]
    return float(np.nanmax([np.inf if np.isnan(x) else x for x in found], initial=0.0))


def oracle_rows(
    source: AnySource, half: onnx.ModelProto, batch: Batch, names: tuple[str, ...]
) -> Iterator[tuple[str, Measured]]:
    """Runs oracles on a converted file.

    Args:
        source: the float32 model.
        half: its FP16 file.
        batch: samples.
        names: of `ORACLES`.
    """
    expected = source.forward(batch)
    for name in names:
        try:
            found = measured(source, expected, ORACLES[name](half, batch))
            if name in OWN_MISTAKES and found.verdict is Verdict.FAIL:
                _check_in_fp32(source, batch, expected, name)
        except Exception as error:  # each of them raises its own
            found = Measured(np.nan, None, f"{type(error).__name__}: {str(error)[-300:]}")
        yield name, found


def _check_in_fp32(source: AnySource, batch: Batch, expected: Batch, name: str) -> None:
    """A file that an oracle loses in FP32, too, tells nothing of FP16."""
    with temporary_folder() as folder:
        full = convert(source, output=folder / "full.onnx", precision="fp32")
        received = ORACLES[name](onnx.load(full.path), batch)
    if measured(source, expected, received).verdict is Verdict.FAIL:
        raise RuntimeError("wrong in FP32, too")
