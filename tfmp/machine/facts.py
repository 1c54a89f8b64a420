"""Machine: the facts about hardware, software and settings that `doctor` judges."""

import os
import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from tfmp.machine.cuda_versions import CudaVersions, installed_cuda
from tfmp.machine.devices import CPU, Device, tf32_in_use, visible_devices
from tfmp.machine.nvidia import NvidiaFacts, read_nvidia
from tfmp.machine.onnx_providers import read_providers
from tfmp.shared.backend import current_backend


@dataclass(frozen=True)
class Machine:
    """Facts about a machine, without a judgement.

    Attributes:
        python: version of Python.
        platform: operating system and processor type.
        packages: by name, the version of every installed package.
        unmet_requirements: by name, the requirements of this package that are not met, as they
            are declared.
        devices: the devices that the Keras backend would use.
        tf32_in_use: whether float32 products run as TF32; None if that is unknown.
        nvidia_driver: version of NVIDIA's kernel driver; None without a driver.
        nvidia: NVIDIA's driver's answers about its cards.
        cuda: the CUDA and cuDNN that PyTorch on its backend, else TensorFlow, was built for, and
            the installed ones.
        providers: by built-in execution provider of ONNX Runtime, the reason why it does not
            load; an empty text for a provider that loads.
        memory_growth: whether the backend takes GPU memory step by step, instead of nearly all of
            it at once; None without a GPU, or if the backend cannot say.
        jit: whether TensorFlow's global XLA compilation is on.
        environment: the process's environment variables.
        backend, floatx, dtype_policy: Keras's settings.
    """

    python: str = "3.11.0"
    platform: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    unmet_requirements: dict[str, str] = field(default_factory=dict)
    devices: tuple[Device, ...] = (CPU,)
    tf32_in_use: bool | None = None
    nvidia_driver: str | None = None
    nvidia: NvidiaFacts = field(default_factory=NvidiaFacts)
    cuda: CudaVersions = field(default_factory=CudaVersions)
    providers: dict[str, str] = field(default_factory=dict)
    memory_growth: bool | None = None
    jit: bool = False
    environment: dict[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    backend: str = "tensorflow"
    floatx: str = "float32"
    dtype_policy: str = "float32"

    @property
    def gpu(self) -> bool:
        """Whether any of the devices is a GPU."""
        return any(device.kind == "gpu" for device in self.devices)


def read_machine() -> Machine:
    """Reads the facts about this machine; loads Keras and its backend."""
    import keras

    found = visible_devices()
    packages = _packages()
    nvidia = read_nvidia()
    return Machine(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=packages,
        unmet_requirements=_unmet_requirements(),
        devices=found,
        tf32_in_use=tf32_in_use(found[0]),
        nvidia_driver=nvidia.driver or _nvidia_driver(),
        nvidia=nvidia,
        cuda=installed_cuda(packages),
        providers=read_providers(),
        memory_growth=current_backend().memory_growth(),
        jit=current_backend().jit_everywhere(),
        environment=dict(os.environ),
        backend=current_backend().name,
        floatx=keras.config.floatx(),
        dtype_policy=keras.config.dtype_policy().name,
    )


def _packages() -> dict[str, str]:
    names = ((found.metadata["Name"], found.version) for found in metadata.distributions())
    return {name.lower().replace("_", "-"): version for name, version in names if name}


def _unmet_requirements() -> dict[str, str]:
    from packaging.requirements import Requirement  # Keras brings it

    try:
        declared = metadata.requires("tfmp") or ()
    except metadata.PackageNotFoundError:  # a folder on the path, not an installed package
        return {}
    unmet = {}
    for text in declared:
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            installed = ""
        if not installed or not requirement.specifier.contains(installed, prereleases=True):
            unmet[requirement.name] = f"{requirement.name}{requirement.specifier}"
    return unmet


def _nvidia_driver() -> str | None:
    """The version in the first line of the kernel driver's own file, on Linux."""
    try:
        first = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return None
    versions = [word for word in first.split() if word[:1].isdigit() and "." in word]
    return versions[0] if versions else "unknown"
