"""An ONNX Runtime session on a GPU, as a worker process holds it, and the places of its nodes.

ONNX Runtime lists a provider wherever a build with it is installed, falls back to the CPU
without an error when the provider does not load, and again for every single node that it has no
kernel for. So the first run is profiled: the profile names the provider of each node.
"""

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from tfmp.converters.onnx.fp16 import SESSION_OPTIONS
from tfmp.converters.shared.errors import MachineError, RunnerError
from tfmp.converters.shared.sessions import onnx_metadata, tensor_spec
from tfmp.converters.shared.tensors import Batch, TensorSpec
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.wording import first_line

CUDA = "CUDAExecutionProvider"


@dataclass(frozen=True)
class Placement:
    """The providers that nodes of the first run computed on.

    Attributes:
        on_device: number of nodes on the provider that was asked for.
        elsewhere: op types of nodes that gave floats on another provider.
    """

    on_device: int
    elsewhere: tuple[str, ...]


class GpuSession:
    """A session whose nodes run on one provider; nodes that do not are named."""

    def __init__(self, path: Path, provider: str = CUDA) -> None:
        """Loads the model.

        Args:
            path: an ONNX file.
            provider: name of the provider in ONNX Runtime.

        Raises:
            MachineError: the provider does not load, or the device has no memory left.
            RunnerError: the model does not load on it.
        """
        if provider == CUDA:
            onnxruntime.preload_dlls()  # the libraries of the nvidia-* packages, where installed
        self._provider = provider
        self._stack = ExitStack()
        folder = self._stack.enter_context(temporary_folder())
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=[(provider, provider_options(path, provider))]
            )
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise _error(f"ONNX Runtime cannot load {path.name} ({first_line(error)})") from error
        if provider not in self._session.get_providers():
            raise MachineError(
                "ONNX Runtime cannot load its CUDA provider. Install CUDA 12 and cuDNN 9, or take "
                "a GPU that they support"
                if provider == CUDA
                else f"ONNX Runtime cannot load its {provider}: it supports no adapter of this "
                "machine. Install a Vulkan driver (Debian 13: apt install mesa-vulkan-drivers)"
            )
        self._placement: Placement | None = None

    def describe(self) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], str]:
        """Inputs, outputs, and ONNX Runtime's version."""
        return (
            tuple(map(tensor_spec, self._session.get_inputs())),
            tuple(map(tensor_spec, self._session.get_outputs())),
            onnxruntime.__version__,
        )

    def run(self, batch: Batch) -> tuple[Batch, Placement]:
        """Outputs by name, and the places of the nodes."""
        feed = {
            spec.name: batch[spec.name].astype(spec.dtype)
            for spec in map(tensor_spec, self._session.get_inputs())
        }
        names = [value.name for value in self._session.get_outputs()]
        try:
            outputs = self._session.run(names, feed)
        except Exception as error:  # as above
            raise _error(f"ONNX Runtime: {first_line(error)}") from error
        if self._placement is None:
            profile = Path(self._session.end_profiling())
            self._placement = _placement(json.loads(profile.read_text()), self._provider)
            self._stack.close()
        return dict(zip(names, map(np.asarray, outputs), strict=True)), self._placement


def provider_options(path: Path, provider: str) -> dict[str, str]:
    """The options of a provider for a file: those of its metadata, and ours.

    Raises:
        RunnerError: the file is not an ONNX model, or its options cannot be read.
    """
    try:
        own = onnx_metadata(path).get(SESSION_OPTIONS, "{}")
        options = {str(k): str(v) for k, v in json.loads(own).get(provider, {}).items()}
    except Exception as error:  # protobuf, JSON and attributes each have their own
        raise RunnerError(
            f"{path.name}: is not a usable ONNX model ({first_line(error)})"
        ) from error
    # TF32 has FP16's ten fraction bits: a float32 reference must not be rounded to them.
    return {**options, "use_tf32": "0"} if provider == CUDA else options


def _error(text: str) -> RunnerError:
    """The error of a model, or of a device whose memory is taken."""
    if not re.search("out of memory|Failed to allocate memory", text):
        return RunnerError(text)
    return MachineError(f"{text}. Other programs may hold memory of this GPU.")


def _placement(events: list[dict], provider: str) -> Placement:
    """Reads a profile. Nodes that give only integers do not count: shapes belong on the CPU."""
    on_device, elsewhere = 0, set()
    for event in events:
        told = event.get("args", {})
        if event.get("cat") != "Node" or "provider" not in told:
            continue
        if told["provider"] == provider:
            on_device += 1
        elif any("float" in kind for shape in told.get("output_type_shape", ()) for kind in shape):
            elsewhere.add(told["op_name"])
    return Placement(on_device, tuple(sorted(elsewhere)))
