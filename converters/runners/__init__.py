"""Everything that executes a model, behind one interface."""

from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.runners.cuda import CudaRunner
from tfmp.converters.runners.litert import (
    LiteRTGpuRunner,
    LiteRTRunner,
    litert_runner,
    weights_only_runner,
)
from tfmp.converters.runners.onnx import OnnxRunner, onnx_runner
from tfmp.converters.runners.opening import open_runner
from tfmp.converters.runners.reference import SourceRunner, reference_runner

__all__ = [
    "CudaRunner",
    "LiteRTGpuRunner",
    "LiteRTRunner",
    "OnnxRunner",
    "Runner",
    "RunnerInfo",
    "SourceRunner",
    "litert_runner",
    "onnx_runner",
    "open_runner",
    "reference_runner",
    "weights_only_runner",
]
