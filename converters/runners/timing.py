"""Times single calls of a file, in this process or in a worker's."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.shared.tensors import Batch
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


def time_runner(runner: Runner, call: Batch, rows: int) -> TimedCalls:
    """Times a runner that is open.

    Args:
        runner: the runner.
        call: arrays of one call by the runner's input names.
        rows: number of samples in it.
    """
    return TimedCalls(time_calls(lambda: runner.run(call)), rows, runner.info)


def time_in_worker(
    timer: str,
    path: Path,
    call: Batch,
    rows: int,
    info: RunnerInfo,
    *arguments: object,
    environment: dict[str, str] | None = None,
) -> TimedCalls:
    """Times a file in a process of its own, without the transfer of arrays to it and back.

    Args:
        timer: class in this module, such as "OnnxGpuTimer".
        path: the file.
        call: arrays of one call by the file's input names.
        rows: number of samples in it.
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
        seconds, rows = worker.call("measure", call, rows)
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

    def measure(self, call: Batch, rows: int) -> tuple[list[float], int]:
        """Seconds of single calls, and the number of samples that each took.

        A file that fixes another number of samples than the call has is given its own.
        """
        prepared, rows = self._interpreter.prepared(call, rows)
        return time_calls(prepared), rows


class OnnxGpuTimer:
    """Times an ONNX file on a GPU, in the worker process; copies to and from the GPU count."""

    def __init__(self, path: Path, provider: str | None = None) -> None:
        """Loads the file; see `OnnxGpuRunner`."""
        from tfmp.converters.runners.gpu_session import GpuSession
        from tfmp.converters.runners.onnx_gpu import own_provider

        self._session = GpuSession(path, provider or own_provider())

    def measure(self, call: Batch, rows: int) -> tuple[list[float], int]:
        """Seconds of single calls, and the number of samples that each took."""
        return time_calls(lambda: self._session.run(call)), rows
