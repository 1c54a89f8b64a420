"""What every runner is: one interface to whatever executes a model, and proof of how it computed.

A runner is a context manager: it holds a session or a worker process from `with` to its end.
"""

from dataclasses import dataclass, field
from typing import Protocol, Self

from tfmp.converters.shared.tensors import Batch, TensorSpec


@dataclass(frozen=True)
class RunnerInfo:
    """What executed a model.

    Attributes:
        name: the runner, such as "onnxruntime" or "emulated".
        device: where it ran, such as "CPU".
        fp16: "native" (FP16 arithmetic), "emulated" (FP32 arithmetic, every FP16 tensor rounded),
            "weights-only" (FP16 weights, FP32 arithmetic), or None for a float32 model.
        details: versions, settings and the proof of the above, for the report.
    """

    name: str
    device: str
    fp16: str | None
    details: dict[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """Executes one model, batch by batch.

    Attributes:
        info: what executes it.
        notes: what the file itself shows that explains a drift, for the report.
        inputs: what it takes.
        outputs: what it gives.
    """

    info: RunnerInfo
    notes: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def run(self, batch: Batch) -> Batch:
        """Arrays by input name to arrays by output name; raises `RunnerError` on failure."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Held:
    """Context-manager half of a runner that has nothing to release."""

    notes: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None
