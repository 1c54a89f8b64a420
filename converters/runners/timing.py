"""Times calls of a file or a model, in this process or in a worker's, which tells its memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.worker import Worker
from tfmp.shared.watched import forget_peak, own_memory

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
        memory_bytes: highest rise of a worker's memory, from before it loaded the file to the last
            call; None in this process, on a GPU, and where the system cannot tell.
    """

    seconds: list[float]
    rows: int
    info: RunnerInfo
    memory_bytes: int | None = None


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
        timer: "onnx", "onnx-gpu", "litert" or "keras".
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
        "tfmp.converters.runners.timing:Timer",
        timer,
        path,
        *arguments,
        label=f"timing {path.name}",
        timeout_s=_TIMEOUT_S,
        environment=environment or {},
    ) as worker:
        seconds, rows, memory = worker.call("measure", call, rows)
    return TimedCalls(seconds, rows, info, memory if info.device == "CPU" else None)


class Timer:
    """A file opened for timing, and the memory that it takes; the object that a `Worker` holds."""

    def __init__(self, kind: str, *arguments: object) -> None:
        """Loads the file, after the libraries: they are no part of its memory."""
        libraries, opened = _KINDS[kind]
        for name in libraries:
            import_module(name)
        self._before = own_memory("VmRSS") if forget_peak() else None
        self._prepared = opened(*arguments)

    def measure(self, call: Batch, rows: int) -> tuple[list[float], int, int | None]:
        """Seconds of single calls, the samples that each took, and the rise of memory in bytes."""
        prepared, rows = self._prepared(call, rows)
        seconds = time_calls(prepared)
        rise = None if self._before is None else max(0, own_memory("VmHWM") - self._before)
        return seconds, rows, rise


# Takes the arrays of a call and the number of samples in it; gives the call, and the number that
# it takes: a file that fixes another one is given its own.
_Prepare: TypeAlias = Callable[[Batch, int], tuple[Callable[[], object], int]]


def _onnx(path: Path) -> _Prepare:
    from tfmp.converters.runners.onnx import OnnxRunner

    runner = OnnxRunner(path, alone=True)
    return lambda call, rows: (lambda: runner.run(call), rows)


def _onnx_gpu(path: Path, provider: str | None = None) -> _Prepare:
    """Copies to and from the GPU count."""
    from tfmp.converters.runners.gpu_session import GpuSession
    from tfmp.converters.runners.onnx_gpu import own_provider

    session = GpuSession(path, provider or own_provider())
    return lambda call, rows: (lambda: session.run(call), rows)


def _litert(
    path: Path, mode: str, signature: str | None, vulkan_loader: str | None = None
) -> _Prepare:
    """See `Interpreter`. A signature that the file lacks is ignored."""
    from tfmp.converters.tflite.file import Interpreter, TFLiteModel

    entry = TFLiteModel(path).entry_point(signature) or None
    return Interpreter(path, mode, entry, vulkan_loader).prepared


def _keras(path: Path, policy: str, device: str) -> _Prepare:
    """A model under a dtype policy, compiled as by `predict`."""
    import tensorflow as tf

    from tfmp.converters.intake import keras_forward

    forward = keras_forward(path, policy)

    def run(call: Batch) -> object:
        with tf.device(f"/{device}:0"):
            return forward(call)

    return lambda call, rows: (lambda: run(call), rows)


_KINDS: dict[str, tuple[tuple[str, ...], Callable[..., _Prepare]]] = {
    "onnx": (("onnxruntime", "tfmp.converters.runners.onnx"), _onnx),
    "onnx-gpu": (("onnxruntime",), _onnx_gpu),
    "litert": (("ai_edge_litert.compiled_model",), _litert),
    "keras": (("keras", "tensorflow"), _keras),
}
