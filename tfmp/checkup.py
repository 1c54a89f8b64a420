"""doctor: what of this machine, its software and a model speaks against mixed precision."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tfmp.machine import Machine, read_machine

STATUSES = ("ok", "note", "warning", "problem")


@dataclass(frozen=True)
class Diagnosis:
    """What one check says.

    Attributes:
        check: name of the check.
        status: "ok"; "note" for what changes results and may be wanted; "warning" for what costs
            speed or accuracy; "problem" for what breaks things.
        message: what is so.
        mend: what to do; empty if there is nothing to.
    """

    check: str
    status: str
    message: str
    mend: str = ""


@dataclass(frozen=True)
class DoctorReport:
    """Everything that `doctor` found; printed, one line a finding and one a mend.

    Attributes:
        diagnoses: in the order of the checks.
        machine: the facts that they rest on.
    """

    diagnoses: tuple[Diagnosis, ...]
    machine: Machine

    @property
    def healthy(self) -> bool:
        """Whether there is no problem; warnings and notes are none."""
        return all(diagnosis.status != "problem" for diagnosis in self.diagnoses)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "healthy": self.healthy,
            "diagnoses": [asdict(diagnosis) for diagnosis in self.diagnoses],
            "machine": self.machine.to_dict(),
        }

    def __str__(self) -> str:
        width = max(map(len, STATUSES))
        lines = []
        for diagnosis in self.diagnoses:
            lines.append(f"{diagnosis.status:{width}}  {diagnosis.check}: {diagnosis.message}")
            if diagnosis.mend:
                lines.append(f"{'':{width}}    {diagnosis.mend}")
        return "\n".join(lines)


def doctor(model: Any = None) -> DoctorReport:
    """Checks hardware, drivers, versions, settings and, if given, a model.

    Args:
        model: a compiled Keras model whose plan and pre-flight findings are to be looked at too.

    Returns:
        The report, for `print` or `to_dict`.
    """
    machine = read_machine()
    diagnoses = [diagnosis for check in CHECKS for diagnosis in check(machine)]
    if model is not None:
        diagnoses += check_model(model)
    return DoctorReport(tuple(diagnoses), machine)


Check = Callable[[Machine], Iterable[Diagnosis]]


def check_requirements(machine: Machine) -> Iterable[Diagnosis]:
    """Installed versions against those that this package declares."""
    unmet = [
        Diagnosis(
            "versions",
            "problem",
            f"{wanted} is required, installed is {machine.packages.get(name, 'none')}",
            f'Run: pip install "{wanted}"',
        )
        for name, wanted in machine.unmet_requirements.items()
    ]
    shown = ("tensorflow", "keras", "jax", "onnx", "onnxruntime-gpu", "onnxruntime")
    known = [f"{name} {machine.packages[name]}" for name in shown if name in machine.packages]
    yield from unmet or [Diagnosis("versions", "ok", ", ".join(known))]


def check_onnx_runtimes(machine: Machine) -> Iterable[Diagnosis]:
    """Distributions of ONNX Runtime overwrite each other's files."""
    runtimes = sorted(name for name in machine.packages if name.startswith("onnxruntime"))
    if len(runtimes) > 1:
        yield Diagnosis(
            "ONNX Runtime",
            "problem",
            f"{' and '.join(runtimes)} are both installed and overwrite each other's files",
            f"Run: pip uninstall -y {' '.join(runtimes)}; pip install --force-reinstall tfmp",
        )
    elif runtimes:
        yield Diagnosis("ONNX Runtime", "ok", f"{runtimes[0]} {machine.packages[runtimes[0]]}")


def check_cuda_generations(machine: Machine) -> Iterable[Diagnosis]:
    """TensorFlow's CUDA libraries and ONNX Runtime's have to be of one generation."""
    runtime = machine.packages.get("onnxruntime-gpu")
    if runtime and "tensorflow" in machine.packages and _numbers(runtime) >= (1, 27):
        yield Diagnosis(
            "CUDA",
            "problem" if machine.gpu else "note",
            f"onnxruntime-gpu {runtime} is built for CUDA 13, TensorFlow for CUDA 12",
            'Run: pip install "onnxruntime-gpu<1.27"',
        )
    libraries = sorted(name for name in machine.packages if name.startswith("nvidia-cudnn-"))
    if len(libraries) > 1:
        yield Diagnosis(
            "CUDA",
            "problem",
            f"{' and '.join(libraries)} overwrite each other's files",
            f"Keep the one TensorFlow asks for: pip uninstall -y {libraries[-1]}",
        )


def check_device(machine: Machine) -> Iterable[Diagnosis]:
    """What there is to train on, and what it is good at."""
    accelerators = [device for device in machine.devices if device.kind != "cpu"]
    if not accelerators:
        yield _no_accelerator(machine)
    for device in accelerators:
        if device.kind == "gpu" and not device.tensor_cores:
            yield Diagnosis(
                "device",
                "warning",
                f"{device} has no known Tensor Cores: FP16 saves memory there, but no time",
                "policy='auto' trains in float32 on it",
            )
        else:
            yield Diagnosis("device", "ok", _strengths(machine, device))


def check_environment(machine: Machine) -> Iterable[Diagnosis]:
    """Environment variables that change what is computed in which precision."""
    for name, effect in PRECISION_VARIABLES.items():
        value = machine.environment.get(name)
        if value is not None and effect.applies(value):
            mend = f"Unset {name} unless that is wanted" if effect.status == "warning" else ""
            yield Diagnosis("environment", effect.status, f"{name}={value}: {effect.text}", mend)


def check_keras(machine: Machine) -> Iterable[Diagnosis]:
    """Keras's own settings, which a file in the home folder may hold."""
    if machine.backend not in ("tensorflow", "jax"):
        yield Diagnosis(
            "Keras",
            "problem",
            f"the Keras backend is {machine.backend}; tfmp knows tensorflow and jax",
            "Set the environment variable KERAS_BACKEND=tensorflow",
        )
    if machine.floatx != "float32":
        yield Diagnosis(
            "Keras",
            "warning",
            f"floatx is {machine.floatx}: weights are made in it, so there are no float32 masters",
            "Set floatx to float32 in ~/.keras/keras.json or with keras.config.set_floatx",
        )
    if machine.dtype_policy != "float32":
        yield Diagnosis(
            "Keras", "note", f"the global dtype policy is {machine.dtype_policy}: new layers get it"
        )


CHECKS: tuple[Check, ...] = (
    check_requirements,
    check_onnx_runtimes,
    check_cuda_generations,
    check_device,
    check_environment,
    check_keras,
)


@dataclass(frozen=True)
class Effect:
    """What an environment variable does.

    Attributes:
        text: in words.
        status: of the diagnosis.
        values: the values that do it, in lower case; empty for all.
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

# NVIDIA_TF32_OVERRIDE: NVIDIA's cuBLAS guide; TF_*: tensorflow/core/util/use_cudnn.cc and
# tensorflow/core/kernels/matmul_util.cc; *_FPMATH_MODE: oneDNN's guide on primitive attributes.
PRECISION_VARIABLES: Mapping[str, Effect] = {
    "NVIDIA_TF32_OVERRIDE": Effect("TF32 is off: float32 is exact and slower", "note", _OFF),
    "TF_FP16_CONV_USE_FP32_COMPUTE": Effect("FP16 convolutions sum in FP16", "warning", _OFF),
    "TF_FP16_MATMUL_USE_FP32_COMPUTE": Effect("FP16 products sum in FP16", "warning", _OFF),
    "TF_ENABLE_ONEDNN_OPTS": Effect("oneDNN's operations are off on the CPU", "note", _OFF),
    "ONEDNN_DEFAULT_FPMATH_MODE": _FPMATH,
    "DNNL_DEFAULT_FPMATH_MODE": _FPMATH,
    "JAX_DEFAULT_MATMUL_PRECISION": Effect("the precision of JAX's float32 products is set"),
    "JAX_ENABLE_X64": Effect("JAX computes in 64 bits where it is asked to", "note", _ON),
    "XLA_FLAGS": Effect("XLA runs with flags, some of which change precision"),
}


def check_model(model: Any) -> list[Diagnosis]:
    """A model's plan, and what its pre-flight finds."""
    from tfmp.policy import plan
    from tfmp.preflight import preflight

    made = plan(model)
    narrow = plan(model, "mixed_float16") if made.policy == "float32" else made
    kept = len(narrow.kept_float32())
    summary = f"{len(narrow.rows)} layers, {kept} of them float32 under {narrow.policy}"
    diagnoses = [Diagnosis("model", "ok", f"{summary}; policy='auto' takes {made.policy} here")]
    if not model.compiled:
        mend = "Compile it for the checks of optimizer and train_step"
        return [*diagnoses, Diagnosis("model", "note", "the model is not compiled", mend)]
    diagnoses += [
        Diagnosis("model", "warning", finding.message, finding.mend)
        for finding in preflight(model, narrow)
    ]
    return diagnoses


def _no_accelerator(machine: Machine) -> Diagnosis:
    if machine.nvidia_driver is None:
        return Diagnosis("device", "ok", "CPU only: policy='auto' trains in float32")
    return Diagnosis(
        "device",
        "problem",
        f"NVIDIA's driver {machine.nvidia_driver} is here, but {machine.backend} sees no GPU",
        {
            "tensorflow": 'Run: pip install "tensorflow[and-cuda]"',
            "jax": 'Run: pip install "jax[cuda12]"',
        }.get(machine.backend, "")
        + "; look at CUDA_VISIBLE_DEVICES too",
    )


def _strengths(machine: Machine, device: Any) -> str:
    strengths = ["Tensor Cores"] if device.tensor_cores else []
    strengths += ["bfloat16"] if device.bfloat16 else []
    if device.tf32:
        strengths.append("float32 products in TF32" if machine.tf32_in_use else "TF32 switched off")
    return f"{device}: {', '.join(strengths)}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
