"""How long one call of a file takes, as it is installed: never of an emulation."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfmp.converters.report import Latency
from tfmp.converters.runners import OnnxRunner, Runner, RunnerInfo, find_vulkan
from tfmp.converters.shared.tensors import Batch, TensorSpec
from tfmp.converters.shared.worker import Worker

# Enough calls for a median that repeats; a slow model stops earlier.
_CALLS = 50
_FEWEST_CALLS = 5
_LONGEST_SECONDS = 2.0

# Caches fill, and lazy kernels are chosen, on the first calls.
_WARM_UP_CALLS = 3


def time_calls(call: Callable[[], object]) -> list[float]:
    """Seconds that single calls took, after some to warm up."""
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


def of_runner(runner: Runner, sample: Batch) -> Latency:
    """Latency of what is open already.

    Args:
        runner: of the model.
        sample: arrays by the runner's input names; cut or repeated to the batch that the model
            fixes, or to one sample.
    """
    batch, rows = _one_call(runner.inputs, sample)
    return _latency(time_calls(lambda: runner.run(batch)), rows, runner.info)


def of_file(path: Path, sample: Batch, info: RunnerInfo, signature: str | None = None) -> Latency:
    """Latency of a candidate where it runs without emulation.

    Args:
        path: a .onnx or .tflite file.
        sample: arrays by its input names.
        info: what the candidate was compared on; a GPU is measured too.
        signature: the entry point of a .tflite file that was compared, see `open_runner`.

    Raises:
        RunnerError: it cannot be loaded or run.
    """
    if path.suffix.lower() == ".onnx" and info.device == "CPU":
        return of_runner(OnnxRunner(path), sample)
    # Inside a worker: the way there and back would be measured too.
    with ExitStack() as stack:
        target = "CudaTimer"
        arguments: tuple[Any, ...] = (path,)
        environment: dict[str, str] = {}
        if path.suffix.lower() == ".tflite":
            target, arguments = "LiteRTTimer", (path, "cpu", signature)
            if info.device != "CPU":
                vulkan = stack.enter_context(find_vulkan())
                arguments = (path, "gpu", signature, vulkan.loader)
                environment = vulkan.environment
            else:
                info = replace(info, name="litert")  # FP16 that a CPU emulates is not timed
        worker = Worker(
            f"tfmp.converters.comparison.latency:{target}",
            *arguments,
            label=f"timing {path.name}",
            timeout_s=600.0,
            environment=environment,
        )
        seconds, rows = stack.enter_context(worker).call("measure", sample)
    return _latency(seconds, rows, info)


class LiteRTTimer:
    """Times a .tflite file on LiteRT, in the worker process."""

    def __init__(
        self, path: Path, mode: str, signature: str | None, vulkan_loader: str | None = None
    ) -> None:
        """Loads the file; see `Interpreter`, but for a signature that it has not, as a runner."""
        from tfmp.converters.runners import Interpreter
        from tfmp.converters.tflite.file import TFLiteModel

        entry = TFLiteModel(path).entry_point(signature) or None
        self._interpreter = Interpreter(path, mode, entry, vulkan_loader)

    def measure(self, sample: Batch) -> tuple[list[float], int]:
        """Seconds of single calls, and the samples that each took."""
        call, rows = self._interpreter.prepared(sample)
        return time_calls(call), rows


class CudaTimer:
    """Times an ONNX file on CUDA, in the worker process; copies to and from the GPU count."""

    def __init__(self, path: Path, provider: str = "CUDAExecutionProvider") -> None:
        """Loads the file."""
        from tfmp.converters.runners import CudaSession

        self._session = CudaSession(path, provider)

    def measure(self, sample: Batch) -> tuple[list[float], int]:
        """Seconds of single calls, and the samples that each took."""
        inputs, _, _ = self._session.describe()
        batch, rows = _one_call(inputs, sample)
        return time_calls(lambda: self._session.run(batch)), rows


def _one_call(inputs: Sequence[TensorSpec], sample: Batch) -> tuple[Batch, int]:
    """The sample cut or repeated to the batch that the model fixes, or to one; and how many."""
    fixed = [spec.shape[0] for spec in inputs if spec.shape and spec.shape[0]]
    rows = fixed[0] if fixed else 1
    return {
        name: np.resize(array, (rows, *array.shape[1:])) for name, array in sample.items()
    }, rows


def _latency(seconds: list[float], rows: int, info: RunnerInfo) -> Latency:
    low, median, high = (float(value) for value in np.percentile(seconds, [5, 50, 95]) * 1e3)
    return Latency(median, low, high, len(seconds), rows, info.name, info.device)
