"""Which runner a file is given to."""

from pathlib import Path

from tfmp.converters.runners.base import Runner
from tfmp.converters.runners.litert import litert_runner
from tfmp.converters.runners.onnx import onnx_runner


def open_runner(path: Path) -> Runner:
    """The runner that shows most of what a file does on hardware with FP16 arithmetic.

    Raises:
        RunnerError: the file cannot be loaded.
    """
    if path.suffix.lower() == ".tflite":
        return litert_runner(path)
    return onnx_runner(path)
