"""Which runner a file is given to."""

from pathlib import Path

from tfmp.converters.onnx.emulation import GPU, Profile
from tfmp.converters.runners.base import Runner
from tfmp.converters.runners.cuda import CudaRunner
from tfmp.converters.runners.litert import litert_runner
from tfmp.converters.runners.onnx import onnx_runner


def open_runner(
    path: Path, gpu: bool = False, profile: Profile = GPU, signature: str | None = None
) -> Runner:
    """The runner that shows most of what a file does on hardware with FP16 arithmetic.

    Args:
        path: a .tflite or .onnx file.
        gpu: run the file on a GPU (CUDA for ONNX, LiteRT's for TFLite) instead of emulating one.
        profile: of the hardware that an FP16 ONNX file is emulated for.
        signature: which entry point of a .tflite file to run, where it has that one.

    Raises:
        RunnerError: the file cannot be loaded, or there is no GPU.
    """
    if path.suffix.lower() == ".tflite":
        return litert_runner(path, gpu, signature)
    return CudaRunner(path) if gpu else onnx_runner(path, profile)
