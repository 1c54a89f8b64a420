"""Where a validation runs: what --device asks for, what is there, and what was chosen."""

import ctypes
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tfmp.converters.report import check_choice
from tfmp.converters.shared.errors import InputError, RunnerError

DEVICES = ("auto", "cpu", "gpu")


@dataclass(frozen=True)
class Placing:
    """What runs where.

    Attributes:
        onnx_gpu: ONNX files run on CUDA.
        tflite_gpu: TFLite files run on LiteRT's GPU backend.
        reference_gpu: the reference runs on a GPU where its framework has one.
        text: what was chosen and why, for the report.
    """

    onnx_gpu: bool
    tflite_gpu: bool
    reference_gpu: bool
    text: str


def choose(device: str, suffixes: Collection[str], emulate: bool = False) -> Placing:
    """Decides where candidates with these suffixes run.

    Args:
        device: "auto" takes CUDA for ONNX files where it works, and the CPU otherwise; "cpu";
            "gpu" for all files. TFLite files also run on a GPU in software, for what it is worth.
        suffixes: of the candidates, such as ".onnx".
        emulate: FP16 arithmetic of ONNX files is to be emulated, which only a CPU does.

    Raises:
        InputError: a device of no such name, "gpu" where there is none that can run them, or
            something to emulate where nothing would be emulated.
    """
    check_choice("device", device, DEVICES)
    if emulate:
        _check_emulation(device, suffixes)
    if device == "cpu":
        return Placing(False, False, False, "cpu, as asked")
    onnx, tflite = ".onnx" in suffixes, ".tflite" in suffixes
    if device == "auto" and emulate:
        return Placing(False, False, False, "cpu, chosen by auto: FP16 is to be emulated")
    if device == "auto":
        if not onnx:
            return Placing(False, False, False, "cpu, chosen by auto: no ONNX file to run")
        problem = cuda_problem()
        if problem is not None:
            return Placing(False, False, False, f"cpu, chosen by auto: {problem}")
        return Placing(True, False, True, "gpu, chosen by auto: CUDA works")
    for needed, problem_of, instead in (
        (onnx, cuda_problem, "pip install 'tfmp[cuda]' on a machine with an NVIDIA GPU"),
        (tflite, vulkan_problem, "install the GPU's Vulkan driver"),
    ):
        problem = problem_of() if needed else None
        if problem is not None:
            raise InputError(
                f"device: expected a GPU for 'gpu', but {problem}. Use device cpu, or {instead}."
            )
    text = "gpu, as asked"
    software = software_adapter() if tflite else None
    if software is not None:
        text += (
            f"; for TFLite that is {software}, in software and FP32: it shows which operators a "
            "GPU takes, not what FP16 does"
        )
    return Placing(onnx, tflite, onnx or software is None, text)


def _check_emulation(device: str, suffixes: Collection[str]) -> None:
    if device == "gpu":
        raise InputError(
            "emulate: a GPU computes in FP16 itself, received device 'gpu' too. Leave one of them "
            "out."
        )
    if ".onnx" not in suffixes:
        raise InputError(
            "emulate: expected an ONNX file to emulate FP16 arithmetic for, received only "
            f"{', '.join(sorted(suffixes))}. Leave it out: LiteRT computes such files itself."
        )


def cuda_problem() -> str | None:
    """Why ONNX Runtime cannot use an NVIDIA GPU; None if it can, tried on a tiny model."""
    import onnxruntime

    from tfmp.converters.runners import CudaRunner

    driver = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(driver)
    except OSError:
        return f"no NVIDIA driver was found ({driver})"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "this build of ONNX Runtime has no CUDA"
    with tempfile.TemporaryDirectory(prefix="tfmp-") as folder:
        path = Path(folder, "probe.onnx")
        path.write_bytes(_probe_model())
        try:
            with CudaRunner(path):
                return None
        except RunnerError as error:
            return str(error).rstrip(".")


def _probe_model() -> bytes:
    """One Identity: enough to load the provider."""
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "probe", values[:1], values[1:]
    )
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def vulkan_problem() -> str | None:
    """Why LiteRT cannot use a GPU, or one played by a CPU; None if it can."""
    from tfmp.converters.runners import find_vulkan

    try:
        with find_vulkan():
            return None
    except RunnerError as error:
        return str(error).rstrip(".")


def software_adapter() -> str | None:
    """The adapter that LiteRT would take, where a CPU plays the GPU; None for a real one."""
    from tfmp.converters.runners import find_vulkan

    try:
        with find_vulkan() as vulkan:
            return vulkan.adapter.name if vulkan.adapter.software else None
    except RunnerError:
        return None
