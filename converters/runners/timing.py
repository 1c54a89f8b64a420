"""Times calls of a file or a model, in this process or in a worker's, which tells its memory."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

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
        timer: class in this module, such as "OnnxGpuTimer", which names its libraries.
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
        "tfmp.converters.runners.timing:MeteredTimer",
        timer,
        path,
        *arguments,
        label=f"timing {path.name}",
        timeout_s=_TIMEOUT_S,
        environment=environment or {},
    ) as worker:
        seconds, rows, memory = worker.call("measure", call, rows)
    return TimedCalls(seconds, rows, info, memory if info.device == "CPU" else None)


class MeteredTimer:
    """A timer of this module, and the memory that its file takes."""

    def __init__(self, timer: str, *arguments: object) -> None:
        """Loads the file, after the libraries: they are no part of its memory."""
        kind = getattr(sys.modules[__name__], timer)
        for name in kind.libraries:
            import_module(name)
        self._before = own_memory("VmRSS") if forget_peak() else None
        self._timer = kind(*arguments)

    def measure(self, call: Batch, rows: int) -> tuple[list[float], int, int | None]:
        """Seconds of single calls, the samples that each took, and the rise of memory in bytes."""
        seconds, rows = self._timer.measure(call, rows)
        rise = None if self._before is None else max(0, own_memory("VmHWM") - self._before)
        return seconds, rows, rise


class OnnxTimer:
    """Times an ONNX file on ONNX Runtime's CPU provider, in the worker process."""

    libraries = ("onnxruntime", "tfmp.converters.runners.onnx")

    def __init__(self, path: Path) -> None:
        """Loads the file."""
        from tfmp.converters.runners.onnx import OnnxRunner

        self._runner = OnnxRunner(path, alone=True)

    def measure(self, call: Batch, rows: int) -> tuple[list[float], int]:
        """Seconds of single calls, and the number of samples that each took."""
        return time_calls(lambda: self._runner.run(call)), rows


class KerasTimer:
    """Times a Keras model under a dtype policy, compiled as by `predict`, in the worker process."""

    libraries = ("keras", "tensorflow")

    def __init__(self, path: Path, policy: str, device: str) -> None:
        """Loads the model.

        Args:
            path: of a file that the calling process has saved.
            policy: "float32", or a mixed policy for all layers that compute in float32.
            device: "CPU" or "GPU".
        """
        from tfmp.converters.intake import keras_forward

        self._device = f"/{device}:0"
        self._forward = keras_forward(path, policy)

    def measure(self, call: Batch, rows: int) -> tuple[list[float], int]:
        """Seconds of single calls, and the number of samples that each took."""
        import tensorflow as tf

        with tf.device(self._device):
            return time_calls(lambda: self._forward(call)), rows


class LiteRTTimer:
    """Times a .tflite file on LiteRT, in the worker process."""

    libraries = ("ai_edge_litert.compiled_model",)

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

    libraries = ("onnxruntime",)

    def __init__(self, path: Path, provider: str | None = None) -> None:
        """Loads the file; see `OnnxGpuRunner`."""
        from tfmp.converters.runners.gpu_session import GpuSession
        from tfmp.converters.runners.onnx_gpu import own_provider

        self._session = GpuSession(path, provider or own_provider())

    def measure(self, call: Batch, rows: int) -> tuple[list[float], int]:
        """Seconds of single calls, and the number of samples that each took."""
        return time_calls(lambda: self._session.run(call)), rows
