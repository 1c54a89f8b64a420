"""The interface of runners, which execute a model and prove the way it was computed.

A runner is a context manager: it holds a session or a worker process inside `with`.
"""

from dataclasses import dataclass, field
from typing import Protocol, Self

from tfmp.converters.shared.tensors import Batch, TensorSpec

# Key in `RunnerInfo.details` of the hardware or runtime that an emulation stands for.
HOLDS_FOR = "holds for"


@dataclass(frozen=True)
class RunnerInfo:
    """The runner that executed a model.

    Attributes:
        name: name of the runner, such as "onnxruntime" or "emulated".
        device: device that it ran on, such as "CPU".
        fp16: "native" (FP16 arithmetic), "emulated" (FP32 arithmetic, every FP16 tensor rounded),
            "weights-only" (FP16 weights, FP32 arithmetic), or None for a float32 model.
        details: versions, settings and the proof of the kind of FP16, for the report.
    """

    name: str
    device: str
    fp16: str | None
    details: dict[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """Executes one model, batch by batch.

    Attributes:
        info: the runner in words.
        notes: facts about the file that may explain a drift, for the report.
        inputs: the model's inputs.
        outputs: the model's outputs.
    """

    info: RunnerInfo
    notes: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def run(self, batch: Batch) -> Batch:
        """Takes arrays by input name and gives arrays by output name, or raises `RunnerError`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Held:
    """The context-manager half of a runner that has nothing to release."""

    notes: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None
