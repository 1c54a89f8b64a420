"""Other runtimes that an FP16 ONNX file for any runtime may meet, emulated beside the first."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfmp.converters.onnx.emulation import (
    GPU,
    LITERT_CPU,
    OTHERS,
    Fact,
    Profile,
    computes_otherwise,
    emulated,
    fact_about,
    fusions_of,
)
from tfmp.converters.onnx.fp16 import TARGET, computes_in_half
from tfmp.converters.onnx.graph import BF16, is_half, where
from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.runners.onnx import OnnxRunner, prepared_model
from tfmp.converters.shared.tensors import Batch

if TYPE_CHECKING:
    import onnx_ir as ir

_INFO = RunnerInfo("emulated", "CPU", "emulated")

# With fewer weights than this, a model costs little beside the time that opening it takes.
_SMALL_WEIGHTS = 2**14


@dataclass(frozen=True)
class Place:
    """The node that a difference begins in.

    Attributes:
        text: op and layer, in words.
        why: the runtime's arithmetic that makes the difference, in words.
        fix: a way to run the file all the same, as a sentence without a full stop.
    """

    text: str
    why: str
    fix: str


class OtherRuntime:
    """A file as another runtime computes it.

    Attributes:
        profile: the runtime.
        share: one of this many samples is to be run.
    """

    def __init__(self, model: "ir.Model", profile: Profile) -> None:
        """Opens nothing yet.

        Args:
            model: the file, as `prepared_model` gives it; it is not changed.
            profile: the runtime.
        """
        self.profile, self._model = profile, model
        self._fusions = fusions_of(model, profile)
        weights = sum(
            value.const_value.size
            for value in model.graph.initializers.values()
            if value.const_value is not None
        )
        self.share = share_of(weights, profile)

    def open(self) -> Runner | None:
        """A runner of the file; None where the runtime computes all of it as `GPU` does.

        Raises:
            RunnerError: ONNX Runtime cannot load what is emulated.
        """
        if not computes_otherwise(self._model, self.profile, self._fusions):
            return None
        return OnnxRunner(emulated(self._model.clone(), self.profile, self._fusions), _INFO)

    def place(self, batch: Batch) -> Place | None:
        """The node that the difference to `GPU` begins in.

        Args:
            batch: arrays by the file's input names, on which there is a difference.
        """
        here, there = (
            OnnxRunner(self._tapped(profile), _INFO).run(batch) for profile in (GPU, self.profile)
        )
        node = _first_difference(self._model, here, there)
        if node is None:
            return None
        fact = fact_about(node, self.profile, self._fusions)
        return Place(where(node), fact.what if fact else "", self._fix(node, fact))

    def _fix(self, node: "ir.Node", fact: Fact | None) -> str:
        if self.profile.name == LITERT_CPU:
            return fact.fix if fact is not None else ""
        if fact is not None and fact.fix:
            kept = node.metadata_props.get("tfmp.layer") or node.name or node.op_type
            return f"{fact.fix}; or convert with --keep-fp32 {kept!r}"
        return f"Convert with --precision mixed --emulate {self.profile.name}"

    def _tapped(self, profile: Profile) -> "ir.Model":
        """The emulated file that also gives every inner value."""
        copy = self._model.clone()
        given = {value.name for value in copy.graph.outputs}
        for node in copy.graph:
            for value in node.outputs:
                if is_half(value) and value.name not in given:
                    copy.graph.outputs.append(value)
        return emulated(copy, profile, self._fusions if profile is self.profile else ())


def share_of(weights: int, profile: Profile) -> int:
    """One of how many samples a model with so many weights is to be run on."""
    # A sum that is rounded after every term takes about 30 times as long as in FP32.
    return 1 if weights < _SMALL_WEIGHTS else 32 if profile.block == 1 else 8


def other_runtimes(path: Path) -> tuple[OtherRuntime, ...]:
    """The runtimes that a verdict on a file should hold for beside `GPU`.

    Args:
        path: an ONNX file.

    Raises:
        RunnerError: the file is not an ONNX model.
    """
    model = prepared_model(path)
    if not computes_in_half(model) or model.metadata_props.get(TARGET):
        return ()
    narrow = computes_in_half(model, BF16)
    return tuple(
        OtherRuntime(model, profile) for profile in OTHERS if profile.takes_bf16 or not narrow
    )


def _first_difference(model: "ir.Model", here: Batch, there: Batch) -> "ir.Node | None":
    """The first node with values that are not finite on one side only, or the largest new error."""
    worst, largest = None, 0.0
    errors: dict[str | None, float] = {}
    for node in model.graph:
        before = max((errors.get(v.name, 0.0) for v in node.inputs if v is not None), default=0.0)
        for value in node.outputs:
            if value.name not in here:
                continue
            error = errors[value.name] = relative_error(here[value.name], there[value.name])
            if not np.isfinite(error):
                return node
            if error - before > largest:
                worst, largest = node, error - before
    return worst


def relative_error(here: np.ndarray, there: np.ndarray) -> float:
    """Relative L2 distance of two arrays of floats; infinite where only one of them is finite."""
    if here.dtype.kind != "f" or here.shape != there.shape:
        return 0.0
    finite = np.isfinite(here)
    if not np.array_equal(finite, np.isfinite(there)):
        return float("inf")
    one, two = here[finite].astype(np.float64), there[finite].astype(np.float64)
    return float(np.linalg.norm(one - two)) / max(float(np.linalg.norm(one)), 1e-30)
