from .arranged import laid_out as laid_out
from .base import HOLDS_FOR as HOLDS_FOR, Runner as Runner, RunnerInfo as RunnerInfo
from .litert import (
    check_litert_gpu as check_litert_gpu,
    litert_runner as litert_runner,
    litert_vulkan as litert_vulkan,
    weights_only_runner as weights_only_runner,
)
from .onnx import (
    OnnxRunner as OnnxRunner,
    onnx_runner as onnx_runner,
    onnx_weights_runner as onnx_weights_runner,
    prepared_model as prepared_model,
)
from .onnx_gpu import (
    OnnxGpuRunner as OnnxGpuRunner,
    check_onnx_gpu as check_onnx_gpu,
    has_webgpu as has_webgpu,
)
from .reference import SourceRunner as SourceRunner, TensorFlowRunner as TensorFlowRunner
from .timing import (
    TimedCalls as TimedCalls,
    time_in_worker as time_in_worker,
    time_runner as time_runner,
)
