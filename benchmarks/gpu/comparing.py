"""How outputs differ, counted alike on both machines: drift, values finite alike, verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tfmp.converters.drift import Comparison
from tfmp.converters.drift.tasks import read_tasks
from tfmp.converters.drift.verdict import judge
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.shared.tensors import Batch, TensorSpec


@dataclass(frozen=True)
class Compared:
    """One set of outputs beside another.

    Attributes:
        drift: relative L2 distance of the worst output; infinite where a value is finite on one
            side only.
        verdict: of the default budget, as if the samples were real.
        reasons: of the verdict, in words.
        values: floating-point values in all outputs.
        alike: values that are finite in both or in neither.
    """

    drift: float
    verdict: str
    reasons: tuple[str, ...] = ()
    values: int = 0
    alike: int = 0

    def to_dict(self) -> dict:
        """Plain JSON types."""
        drift = self.drift if math.isfinite(self.drift) else "inf"
        return {**self.__dict__, "drift": drift, "reasons": list(self.reasons[:2])}


@dataclass(frozen=True)
class Meaning:
    """What outputs are, so that a verdict can be given.

    Attributes:
        tasks: by output, as users declare them.
        labels: of the samples, where there are any.
    """

    tasks: Mapping[str, str] = field(default_factory=dict)
    labels: np.ndarray | None = None


def compared(reference: Batch, received: Batch, meaning: Meaning | None = None) -> Compared:
    """Compares outputs; those without axes or without floating-point numbers are left out.

    Args:
        reference: by name, such as the float32 file's.
        received: by the same names, such as the FP16 file's.
        meaning: of the outputs; None if nothing is known of them.

    Raises:
        ValueError: no output is left.
    """
    meaning = meaning or Meaning()
    pairs = {
        name: (widened(value), widened(received[name]))
        for name, value in reference.items()
        if value.ndim and value.dtype.kind == "f"
    }
    if not pairs:
        raise ValueError("no output has floating-point values along an axis")
    specs = [
        TensorSpec(name, (None, *one.shape[1:]), "float32") for name, (one, _) in pairs.items()
    ]
    try:
        comparison = Comparison("outputs", specs, specs, read_tasks(meaning.tasks))
        comparison.update(
            {name: one for name, (one, _) in pairs.items()},
            {name: other for name, (_, other) in pairs.items()},
            meaning.labels,
        )
        outputs = comparison.outputs()
        judged = judge(outputs, comparison.labels())
    except (InputError, RunnerError) as error:
        raise ValueError(str(error)) from error
    return Compared(
        drift=max(_distance(output.rel_l2) for output in outputs),
        verdict=str(judged.verdict.value),
        reasons=judged.reasons,
        values=sum(one.size for one, _ in pairs.values()),
        alike=sum(int(np.sum(np.isfinite(a) == np.isfinite(b))) for a, b in pairs.values()),
    )


def widened(value: np.ndarray) -> np.ndarray:
    """FP16 values as float32, other values as they are."""
    return value.astype(np.float32) if value.dtype == np.float16 else value


def narrowed(value: np.ndarray) -> np.ndarray:
    """The values in FP16 where that changes none of them: half the size on the way."""
    if value.dtype != np.float32:
        return value
    with np.errstate(over="ignore"):
        half = value.astype(np.float16)
    return half if np.array_equal(half.astype(np.float32), value, equal_nan=True) else value


def _distance(rel_l2: float | None) -> float:
    if rel_l2 is None:
        return 0.0
    return math.inf if math.isnan(rel_l2) else rel_l2
