"""Times single calls of a file, in this process or in a worker's."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.shared.tensors import Batch, TensorSpec
from tfmp.converters.shared.worker import Worker

# Enough calls for a median that repeats; a slow model stops earlier.
_CALLS = 50
_FEWEST_CALLS = 5
_LONGEST_SECONDS = 2.0

# Caches fill, and lazy kernels are chosen, on the first calls.
_WARM_UP_CALLS = 3

_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class TimedCalls:
    """Single calls of one file.

    Attributes:
        seconds: duration of each call.
        rows: number of samples that each call took.
        info: the runner that executed the calls.
    """

    seconds: list[float]
    rows: int
    info: RunnerInfo


def time_calls(call: Callable[[], object]) -> list[float]:
    """Seconds that single calls took, after a few calls that warm up."""
    for _ in range(_WARM_UP_CALLS):
        call()
    seconds: list[float] = []
    while len(seconds) < _CALLS and (
        len(seconds) < _FEWEST_CALLS or sum(seconds) < _LONGEST_SECONDS
    ):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def time_runner(runner: Runner, sample: Batch) -> TimedCalls:
    """Times a runner that is open.

    Args:
        runner: the runner.
        sample: arrays by the runner's input names; they are cut or repeated to the batch size that
            the model fixes, or to one sample.
    """
    batch, rows = _one_call(runner.inputs, sample)
    return TimedCalls(time_calls(lambda: runner.run(batch)), rows, runner.info)


def time_in_worker(
    timer: str,
    path: Path,
    sample: Batch,
    info: RunnerInfo,
    *arguments: object,
    environment: dict[str, str] | None = None,
) -> TimedCalls:
    """Times a file in a process of its own, without the transfer of arrays to it and back.

    Args:
        timer: class in this module, such as "CudaTimer".
        path: the file.
        sample: arrays by the file's input names.
        info: the runner that the result names.
        *arguments: arguments of the timer after the path.
        environment: environment variables of that process.

    Raises:
        RunnerError: the file cannot be loaded or run.
    """
    with Worker(
        f"tfmp.converters.runners.timing:{timer}",
        path,
        *arguments,
        label=f"timing {path.name}",
        timeout_s=_TIMEOUT_S,
        environment=environment or {},
    ) as worker:
        seconds, rows = worker.call("measure", sample)
    return TimedCalls(seconds, rows, info)


class LiteRTTimer:
    """Times a .tflite file on LiteRT, in the worker process."""

    def __init__(
        self, path: Path, mode: str, signature: str | None, vulkan_loader: str | None = None
    ) -> None:
        """Loads the file; see `Interpreter`. A signature that the file lacks is ignored."""
        from tfmp.converters.tflite.file import Interpreter, TFLiteModel

        entry = TFLiteModel(path).entry_point(signature) or None
        self._interpreter = Interpreter(path, mode, entry, vulkan_loader)

    def measure(self, sample: Batch) -> tuple[list[float], int]:
        """Seconds of single calls, and the number of samples that each took."""
        call, rows = self._interpreter.prepared(sample)
        return time_calls(call), rows


class CudaTimer:
    """Times an ONNX file on CUDA, in the worker process; copies to and from the GPU count."""

    def __init__(self, path: Path, provider: str = "CUDAExecutionProvider") -> None:
        """Loads the file."""
        from tfmp.converters.runners.cuda_session import CudaSession

        self._session = CudaSession(path, provider)

    def measure(self, sample: Batch) -> tuple[list[float], int]:
        """Seconds of single calls, and the number of samples that each took."""
        inputs, _, _ = self._session.describe()
        batch, rows = _one_call(inputs, sample)
        return time_calls(lambda: self._session.run(batch)), rows


def _one_call(inputs: Sequence[TensorSpec], sample: Batch) -> tuple[Batch, int]:
    """The sample, cut or repeated to the batch size that the model fixes or to 1, and that size.

    A call whose arrays begin with different sizes stays as it is.
    """
    counts = [len(array) for array in sample.values() if array.ndim]
    if len(set(counts)) > 1:  # a state with its samples on another axis: one call as it is
        return sample, counts[0]
    fixed = [spec.shape[0] for spec in inputs if spec.shape and spec.shape[0]]
    rows = fixed[0] if fixed else 1
    return {
        name: np.resize(array, (rows, *array.shape[1:])) if array.ndim else array
        for name, array in sample.items()
    }, rows
