from .base import Runner as Runner, RunnerInfo as RunnerInfo
from .cuda import CudaRunner as CudaRunner
from .cuda_session import CudaSession as CudaSession
from .litert import LiteRTRunner as LiteRTRunner, weights_only_runner as weights_only_runner
from .litert_interpreter import Interpreter as Interpreter
from .onnx import OnnxRunner as OnnxRunner, onnx_runner as onnx_runner
from .opening import open_runner as open_runner
from .reference import reference_runner as reference_runner
from .vulkan import find_vulkan as find_vulkan
