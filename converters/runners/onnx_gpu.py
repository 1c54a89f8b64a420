"""Runs ONNX files on a GPU, each in a process of its own: by CUDA, or by WebGPU where ONNX Runtime
has that in its place (package onnxruntime-webgpu).
"""

from pathlib import Path
from typing import Self

import numpy as np

from tfmp.converters.runners.base import HOLDS_FOR, RunnerInfo
from tfmp.converters.runners.probes import onnx_probe
from tfmp.converters.shared.errors import MachineError, RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.worker import Worker
from tfmp.shared.atomic_file import temporary_folder

_TIMEOUT_S = 600.0
CUDA = "CUDAExecutionProvider"
_WEBGPU = "WebGpuExecutionProvider"


def has_webgpu() -> bool:
    """Whether the ONNX Runtime of this environment reaches GPUs by WebGPU, and not by CUDA."""
    import onnxruntime

    found = onnxruntime.get_available_providers()
    return _WEBGPU in found and CUDA not in found


def own_provider() -> str:
    """The name of the provider for GPUs in the ONNX Runtime of this environment."""
    return _WEBGPU if has_webgpu() else CUDA


def _title(provider: str) -> str:
    return "WebGPU" if provider == _WEBGPU else provider.removesuffix("ExecutionProvider")


class OnnxGpuRunner:
    """A float32 or FP16 ONNX file on ONNX Runtime's provider for GPUs; on CUDA, TF32 is off.

    TensorFlow takes the whole of a GPU's memory in this process, and two CUDA stacks do not share
    one; hence the worker.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, provider: str | None = None, device: str | None = None) -> None:
        """Loads the file.

        Args:
            path: an ONNX file.
            provider: name of the provider in ONNX Runtime; None for the one of this environment.
            device: name of the device in the report; None for "GPU" and the provider.

        Raises:
            MachineError: the provider does not load.
            RunnerError: the file does not load on it.
        """
        self._provider = provider = provider or own_provider()
        device = device or f"GPU ({_title(provider)})"
        self._worker = _worker(path, provider)
        from tfmp.converters.onnx.fp16 import computes_in_half  # while the worker starts
        from tfmp.converters.runners.onnx import prepared_model

        try:
            half = computes_in_half(prepared_model(path))
            self.inputs, self.outputs, version = self._worker.call("describe")
        except MachineError:
            self._worker.close()
            raise
        except RunnerError:
            self._worker.close()
            check_onnx_gpu(provider)  # the machine is to blame if this fails as well
            raise
        details = {"onnxruntime": version}
        if half:
            details[HOLDS_FOR] = f"ONNX Runtime {version} on this machine's {device}"
        self.info = RunnerInfo("onnxruntime", device, "native" if half else None, details)

    def run(self, batch: Batch) -> Batch:
        outputs, placement = self._worker.call("run", batch)
        name = _title(self._provider)
        if placement.elsewhere:
            proof = f"{', '.join(placement.elsewhere)} fell back to the CPU, which has no FP16"
        else:
            proof = f"all {placement.on_device} nodes that compute floats ran on {name}, by profile"
        self.info.details["proof"] = proof
        return outputs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._worker.close()


def _worker(path: Path, provider: str) -> Worker:
    return Worker(
        "tfmp.converters.runners.gpu_session:GpuSession",
        path,
        provider,
        label=f"ONNX Runtime with {path.name}",
        timeout_s=_TIMEOUT_S,
    )


def check_onnx_gpu(provider: str | None = None) -> None:
    """Runs a convolution on the GPU, which loads everything that models need.

    Args:
        provider: name of the provider in ONNX Runtime; None for the one of this environment.

    Raises:
        MachineError: the provider or one of its libraries does not load, or does not run.
    """
    provider = provider or own_provider()
    with temporary_folder() as folder:
        path = folder / "probe.onnx"
        path.write_bytes(onnx_probe())
        with _worker(path, provider) as worker:
            try:
                worker.call("run", {"x": np.ones((1, 1, 1, 1), np.float32)})
            except MachineError:
                raise
            except RunnerError as error:
                broken = "CUDA or cuDNN" if provider == CUDA else _title(provider)
                raise MachineError(
                    f"{broken} is broken: ONNX Runtime cannot run even one convolution "
                    f"({str(error).rstrip('.')})"
                ) from error
