"""doctor: checks this machine, its software and a model for mixed precision."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfmp.checkup import cuda
from tfmp.checkup.frameworks import framework_of, install_with_cuda
from tfmp.checkup.model import check_model
from tfmp.checkup.report import DoctorReport
from tfmp.machine import Device, Machine, read_machine
from tfmp.shared.backend import BACKENDS
from tfmp.shared.findings import Finding

if TYPE_CHECKING:
    import keras


def doctor(model: "keras.Model | None" = None) -> DoctorReport:
    """Checks hardware, drivers, versions, settings and, if given, a model.

    Args:
        model: a compiled Keras model whose plan and training step are checked too.

    Returns:
        The report; print it, or take it to JSON with `to_dict`.
    """
    machine = read_machine()
    diagnoses = [finding for check in CHECKS for finding in check(machine)]
    if model is not None:
        diagnoses += check_model(model)
    return DoctorReport(tuple(diagnoses), machine)


# Values of CUDA_VISIBLE_DEVICES that name no card.
HIDING = ("", "-1", "none", "NoDevFiles")

# Distributions that contain the module onnxruntime; onnxruntime-extensions and others do not.
ONNX_RUNTIMES = frozenset(
    ["onnxruntime", "ort-nightly", "ort-nightly-gpu"]
    + [
        f"onnxruntime-{kind}"
        for kind in "azure cann directml gpu migraphx openvino qnn rocm silicon training vitisai "
        "windowsml".split()
    ]
)

Check = Callable[[Machine], Iterable[Finding]]


def check_requirements(machine: Machine) -> Iterable[Finding]:
    """Compares the installed versions with the requirements of this package."""
    unmet = [
        Finding(
            "versions",
            "problem",
            f"{wanted} is required, but {machine.packages.get(name, 'no version')} is installed",
            f'Run: pip install "{wanted}"',
        )
        for name, wanted in machine.unmet_requirements.items()
    ]
    shown = ("tensorflow", "keras", "jax", "torch", "onnx", "onnxruntime-gpu", "onnxruntime")
    known = [f"{name} {machine.packages[name]}" for name in shown if name in machine.packages]
    yield from unmet or [Finding("versions", "ok", ", ".join(known))]


def check_onnx_runtimes(machine: Machine) -> Iterable[Finding]:
    """Distributions of ONNX Runtime overwrite each other's files."""
    runtimes = sorted(ONNX_RUNTIMES & set(machine.packages))
    if len(runtimes) > 1:
        keep = "onnxruntime-gpu" if "onnxruntime-gpu" in runtimes else runtimes[0]
        yield Finding(
            "ONNX Runtime",
            "problem",
            f"{' and '.join(runtimes)} are both installed and overwrite each other's files",
            f"Run: pip uninstall -y {' '.join(runtimes)}; "
            f"pip install {keep}=={machine.packages[keep]}",
        )
    elif runtimes:
        yield Finding("ONNX Runtime", "ok", f"{runtimes[0]} {machine.packages[runtimes[0]]}")


def check_device(machine: Machine) -> Iterable[Finding]:
    """The devices to train on, and their abilities."""
    accelerators = [device for device in machine.devices if device.kind != "cpu"]
    if not accelerators:
        yield _no_accelerator(machine)
    for device in accelerators:
        if device.kind == "gpu" and not device.tensor_cores:
            yield Finding(
                "device",
                "warning",
                f"{device} has no Tensor Cores: FP16 saves memory on it, but hardly any time",
                "Train with policy='auto', which takes float32 on it",
            )
        else:
            yield Finding("device", "ok", _strengths(machine, device))


def check_environment(machine: Machine) -> Iterable[Finding]:
    """Environment variables that change the precision of computations."""
    for name, effect in PRECISION_VARIABLES.items():
        value = machine.environment.get(name)
        if value is not None and effect.applies(value):
            fix = f"Unset {name} unless you want this" if effect.status == "warning" else ""
            yield Finding("environment", effect.status, f"{name}={value}: {effect.text}", fix)
    yield from _visible_cards(machine)


def _visible_cards(machine: Machine) -> Iterable[Finding]:
    value = machine.environment.get("CUDA_VISIBLE_DEVICES")
    if value is None or not (machine.nvidia_driver or machine.gpu):
        return
    if value.strip() in HIDING:
        text = f"CUDA_VISIBLE_DEVICES={value}: every card is hidden, so training is on the CPU"
        fix = "Unset CUDA_VISIBLE_DEVICES to train on a card"
        yield Finding("environment", "warning", text, fix)
    else:
        text = f"CUDA_VISIBLE_DEVICES={value}: programs see only these cards"
        yield Finding("environment", "note", text)


def check_xla(machine: Machine) -> Iterable[Finding]:
    """Whether steps are compiled: FP16 gains most if small operations are fused."""
    flags = machine.environment.get(framework_of(machine).xla_flags, "")
    automatic = machine.jit or "--tf_xla_auto_jit=" in flags
    if automatic and "--tf_xla_auto_jit=0" not in flags:
        yield Finding(
            "XLA",
            "note",
            "TensorFlow compiles clusters of every graph with XLA (global jit, TF_XLA_FLAGS)",
            "Unset the global jit to compare; Keras's jit_compile does the same for each model",
        )
    else:
        yield Finding("XLA", "ok", framework_of(machine).steps)


def check_keras(machine: Machine) -> Iterable[Finding]:
    """Keras's settings, which may come from a file in the home folder."""
    if machine.backend not in BACKENDS:
        yield Finding(
            "Keras",
            "problem",
            f"the Keras backend is {machine.backend}; tfmp supports {', '.join(BACKENDS)}",
            "Set the environment variable KERAS_BACKEND=tensorflow",
        )
    if machine.floatx != "float32":
        yield Finding(
            "Keras",
            "warning",
            f"floatx is {machine.floatx}: weights are made in it, so there are no float32 weights",
            "Set floatx to float32 in ~/.keras/keras.json or with keras.config.set_floatx",
        )
    if machine.dtype_policy != "float32":
        yield Finding(
            "Keras", "note", f"the global dtype policy is {machine.dtype_policy}: new layers get it"
        )
    elif machine.floatx == "float32" and machine.backend in BACKENDS:
        yield Finding("Keras", "ok", f"{machine.backend} backend, float32 policy")


CHECKS: tuple[Check, ...] = (
    check_requirements,
    check_onnx_runtimes,
    *cuda.CHECKS,
    check_device,
    check_environment,
    check_xla,
    check_keras,
)


@dataclass(frozen=True)
class Effect:
    """The effect of an environment variable.

    Attributes:
        text: the effect in words.
        status: status of the finding.
        values: the values that have this effect, in lower case; empty if all have it.
    """

    text: str
    status: str = "note"
    values: tuple[str, ...] = ()

    def applies(self, value: str) -> bool:
        """Whether the variable has an effect at this value."""
        return not self.values or value.strip().lower() in self.values


_OFF, _ON = ("0", "false"), ("1", "true")
_FPMATH = Effect(
    "oneDNN may compute float32 in 16 bits on this CPU", "warning", ("bf16", "f16", "any", "tf32")
)

# Read by NVIDIA's own builds; the string is not in TensorFlow 2.21's libraries from PyPI.
_REWRITE = Effect(
    "NVIDIA's builds of TensorFlow rewrite graphs to FP16, in addition to Keras's policies; "
    "TensorFlow from PyPI ignores the variable",
    "warning",
    _ON,
)

# NVIDIA_TF32_OVERRIDE: NVIDIA's cuBLAS guide; TF_*: tensorflow/core/util/use_cudnn.cc and
# tensorflow/core/kernels/matmul_util.cc; *_FPMATH_MODE: oneDNN's guide on primitive attributes.
PRECISION_VARIABLES: Mapping[str, Effect] = {
    "NVIDIA_TF32_OVERRIDE": Effect("TF32 is off: float32 is exact and slower", "note", _OFF),
    "TF_FP16_CONV_USE_FP32_COMPUTE": Effect("FP16 convolutions sum in FP16", "warning", _OFF),
    "TF_FP16_MATMUL_USE_FP32_COMPUTE": Effect("FP16 products sum in FP16", "warning", _OFF),
    "TF_ENABLE_AUTO_MIXED_PRECISION": _REWRITE,
    "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE": _REWRITE,
    "TF_GPU_ALLOCATOR": Effect("GPU memory comes from an unusual allocator"),
    "TF_ENABLE_ONEDNN_OPTS": Effect("oneDNN's operations are off on the CPU", "note", _OFF),
    "ONEDNN_DEFAULT_FPMATH_MODE": _FPMATH,
    "DNNL_DEFAULT_FPMATH_MODE": _FPMATH,
    "JAX_DEFAULT_MATMUL_PRECISION": Effect("the precision of JAX's float32 products is set"),
    "JAX_ENABLE_X64": Effect("JAX computes in 64 bits where code asks for them", "note", _ON),
    "XLA_FLAGS": Effect("XLA runs with flags, some of which change precision"),
}


def _no_accelerator(machine: Machine) -> Finding:
    if machine.nvidia_driver is None:
        text = "CPU only: policy='auto' trains in float32; the checks of GPUs were left out"
        return Finding("device", "ok", text)
    hidden = machine.environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in HIDING
    if hidden:
        return Finding("device", "ok", "CPU only, as CUDA_VISIBLE_DEVICES asks")
    return Finding(
        "device",
        "problem",
        f"NVIDIA's driver {machine.nvidia_driver} is installed, but {machine.backend} sees no GPU",
        _how_to_see_it(machine),
    )


def _how_to_see_it(machine: Machine) -> str:
    if any(d.status != "ok" for d in cuda.check_driver(machine)):
        return "Fix the driver first, as described above"
    framework = framework_of(machine)
    if machine.platform.startswith("Windows") and not framework.brings_cuda:
        # tensorflow.org/install/pip: 2.10 was the last with GPUs on native Windows.
        return "Install TensorFlow or JAX in WSL2: on Windows itself they use no GPUs"
    return install_with_cuda(framework, machine)


def _strengths(machine: Machine, device: Device) -> str:
    strengths = ["Tensor Cores"] if device.tensor_cores else []
    strengths += ["bfloat16"] if device.bfloat16 else []
    if device.tf32:
        strengths.append("float32 products in TF32" if machine.tf32_in_use else "TF32 switched off")
    return f"{device}: {', '.join(strengths)}"
