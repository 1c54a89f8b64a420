"""How long one call of a file takes, as it is installed: never of an emulation."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tfmp.converters.report.model import Latency
from tfmp.converters.runners import OnnxRunner, Runner, RunnerInfo
from tfmp.converters.tensors import Batch
from tfmp.converters.worker import Worker

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
    fixed = [spec.shape[0] for spec in runner.inputs if spec.shape and spec.shape[0]]
    rows = fixed[0] if fixed else 1
    batch = {name: np.resize(array, (rows, *array.shape[1:])) for name, array in sample.items()}
    return _latency(time_calls(lambda: runner.run(batch)), rows, runner.info)


def of_file(path: Path, sample: Batch, info: RunnerInfo) -> Latency:
    """Latency of a candidate where it runs without emulation.

    Args:
        path: a .onnx or .tflite file.
        sample: arrays by its input names.
        info: what the candidate was compared on; a GPU is measured too.

    Raises:
        RunnerError: it cannot be loaded or run.
    """
    if path.suffix.lower() == ".onnx":
        return of_runner(OnnxRunner(path), sample)
    # Inside the worker: the way there and back would be measured too.
    with Worker(
        "tfmp.converters.latency:LiteRTTimer",
        path,
        label=f"LiteRT with {path.name}",
        timeout_s=600.0,
    ) as worker:
        seconds, rows = worker.call("measure", sample)
    return _latency(seconds, rows, RunnerInfo("litert", "CPU", info.fp16))


class LiteRTTimer:
    """Times a .tflite file on LiteRT's CPU backend, in the worker process."""

    def __init__(self, path: Path) -> None:
        """Loads the file."""
        from tfmp.converters.tflite.interpreter import Interpreter

        self._interpreter = Interpreter(path, "cpu")

    def measure(self, sample: Batch) -> tuple[list[float], int]:
        """Seconds of single calls, and the samples that each took."""
        call, rows = self._interpreter.prepared(sample)
        return time_calls(call), rows


def _latency(seconds: list[float], rows: int, info: RunnerInfo) -> Latency:
    low, median, high = (float(value) for value in np.percentile(seconds, [5, 50, 95]) * 1e3)
    return Latency(median, low, high, len(seconds), rows, info.name, info.device)
