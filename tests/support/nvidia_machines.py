"""What `nvidia-smi` prints on machines of several kinds, in the driver's own format.

Per machine: its banner, and the answers to the queries of `tfmp.machine.nvidia`. UUIDs are
shortened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfmp.machine.cuda_versions import CudaVersions, from_packages
from tfmp.machine.devices import CPU, Device
from tfmp.machine.facts import Machine
from tfmp.machine.nvidia import NvidiaFacts, parse_nvidia

_BANNER = (
    "+-----------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI {driver}       Driver Version: {driver}     CUDA Version: {cuda}     |\n"
    "|-----------------------------------------+------------------------+----------------------+\n"
)


@dataclass(frozen=True)
class Recorded:
    """One machine's answers."""

    banner: str
    cards: str
    users: str = ""
    listing: str = ""

    def facts(self) -> NvidiaFacts:
        return parse_nvidia(self.banner, self.cards, self.users, self.listing)


V100 = Recorded(
    _BANNER.format(driver="470.57.02", cuda="11.4"),
    "0, Tesla V100-SXM2-16GB, 470.57.02, 7.0, 16160, 0, [N/A]\n",
    listing="GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-5f3e)\n",
)
T4 = Recorded(
    _BANNER.format(driver="550.54.15", cuda="12.4"),
    "0, Tesla T4, 550.54.15, 7.5, 15360, 3, [N/A]\n",
    listing="GPU 0: Tesla T4 (UUID: GPU-0a1b)\n",
)
GTX_1660 = Recorded(
    _BANNER.format(driver="535.183.01", cuda="12.2"),
    "0, NVIDIA GeForce GTX 1660 Ti, 535.183.01, 7.5, 6144, 4211, [N/A]\n",
    users="1893, /usr/bin/python3, 3870\n2204, C:\\Games\\a, b\\game.exe, [N/A]\n",
    listing="GPU 0: NVIDIA GeForce GTX 1660 Ti (UUID: GPU-77aa)\n",
)
A100_MIG = Recorded(
    _BANNER.format(driver="535.104.05", cuda="12.2"),
    "0, NVIDIA A100-SXM4-40GB, 535.104.05, 8.0, 40960, 88, Enabled\n"
    "1, NVIDIA A100-SXM4-40GB, 535.104.05, 8.0, 40960, 4, Disabled\n",
    listing=(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1111)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-aaaa)\n"
        "  MIG 1g.5gb      Device  1: (UUID: MIG-bbbb)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2222)\n"
    ),
)
A100_MIG_WITHOUT_INSTANCES = Recorded(
    A100_MIG.banner, A100_MIG.cards, listing="GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1111)\n"
)
H100 = Recorded(
    _BANNER.format(driver="580.65.06", cuda="13.0"),
    "0, NVIDIA H100 80GB HBM3, 580.65.06, 9.0, 81559, 61, Disabled\n",
    listing="GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-9c9c)\n",
)
H100_MIG = Recorded(
    _BANNER.format(driver="550.90.07", cuda="12.4"),
    "0, NVIDIA H100 80GB HBM3, 550.90.07, 9.0, 81559, [N/A], Enabled\n",
    users="[N/A], [Insufficient Permissions], [N/A]\n",
    listing=(
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-4d4d)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-cccc)\n"
        "  MIG 1g.10gb+me  Device  1: (UUID: MIG-dddd)\n"
    ),
)
RTX_5090 = Recorded(
    _BANNER.format(driver="590.48.01", cuda="13.1"),
    "0, NVIDIA GeForce RTX 5090, 590.48.01, 12.0, 32607, 410, [N/A]\n",
    listing="GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-5090)\n",
)
# Drivers before 2021 do not know compute_cap and print an error for the whole query.
OLD_DRIVER = Recorded(_BANNER.format(driver="440.33.01", cuda="10.2"), "")
NONE = Recorded("", "")

# What TensorFlow 2.21 from PyPI says of itself: tf.sysconfig.get_build_info().
_BUILT: Mapping[str, Any] = {
    "built": "12.5.1",
    "built_cudnn": "9",
    "code_for": ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"),
}
_FRAMEWORKS = {"tensorflow": "2.21.0", "keras": "3.15.1", "onnxruntime-gpu": "1.26.0"}
_CUDA_12 = {"nvidia-cuda-runtime-cu12": "12.5.82", "nvidia-cudnn-cu12": "9.3.0.75"}
_LOADING = {"CUDAExecutionProvider": "", "CPUExecutionProvider": ""}
_NOT_LOADING = {
    "CUDAExecutionProvider": "libcublasLt.so.12: cannot open shared object file",
    "CPUExecutionProvider": "",
}


def _computer(recorded: Recorded, *devices: Device, packages: Any = (), **facts: Any) -> Machine:
    """A Linux machine with tfmp[cuda] as pip installs it."""
    installed = {**_FRAMEWORKS, **_CUDA_12, **dict(packages)}
    nvidia = recorded.facts()
    known: dict[str, Any] = {
        "platform": "Linux x86_64",
        "packages": installed,
        "devices": (*devices, CPU),
        "tf32_in_use": bool(devices) and devices[0].tf32,
        "nvidia": replace(nvidia, built_in=len(nvidia.cards)),
        "nvidia_driver": nvidia.driver,
        "cuda": from_packages(installed, **_BUILT),
        "providers": _LOADING if nvidia.driver else _NOT_LOADING,
        "memory_growth": True if devices else None,
        "environment": {"HOME": "/home/a", "PATH": "/usr/bin"},
    }
    return Machine(**{**known, **facts})


def _as_tensorflow_names(recorded: Recorded) -> Device:
    card = recorded.facts().cards[0]
    return Device("gpu", card.name, card.compute_capability)


_T4, _A100, _H100 = (_as_tensorflow_names(each) for each in (T4, A100_MIG, H100))
_WITHOUT_CUDA = {**_FRAMEWORKS}

# Whole machines, with everything that doctor asks.
COMPUTERS: Mapping[str, Machine] = {
    "GTX 1660": _computer(GTX_1660, _as_tensorflow_names(GTX_1660), memory_growth=False),
    "T4": _computer(T4, _T4),
    "V100 with an old driver": _computer(V100),
    "A100 with MIG": _computer(A100_MIG, _A100),
    "H100": _computer(H100, _H100),
    "H100 with MIG, in a container": _computer(H100_MIG, _H100),
    "RTX 5090": _computer(RTX_5090, _as_tensorflow_names(RTX_5090)),
    "laptop without a driver": _computer(
        NONE,
        nvidia=NvidiaFacts(built_in=1),
        packages={},
        cuda=CudaVersions(**_BUILT),
    ),
    "driver that stopped": _computer(
        NONE,
        nvidia=NvidiaFacts(
            error="nvidia-smi: Failed to initialize NVML: Driver/library version mismatch",
            built_in=1,
        ),
        nvidia_driver="570.133.07",
    ),
    "Windows": _computer(T4, platform="Windows AMD64", environment={}),
    "card hidden": _computer(T4, environment={"CUDA_VISIBLE_DEVICES": "-1"}),
    "two CUDA majors": _computer(
        T4, _T4, packages={"nvidia-cuda-runtime": "13.0.48", "nvidia-cudnn-cu13": "9.13.0.50"}
    ),
    "two ONNX Runtimes": _computer(
        T4, _T4, packages={"onnxruntime": "1.26.0", "onnxruntime-extensions": "0.14.0"}
    ),
    "TensorFlow without its CUDA": Machine(
        packages=_WITHOUT_CUDA,
        nvidia=T4.facts(),
        nvidia_driver="550.54.15",
        cuda=CudaVersions(**_BUILT),
        providers=_NOT_LOADING,
    ),
    "JAX beside a TensorFlow without its CUDA": Machine(
        packages={**_WITHOUT_CUDA, "jax": "0.10.2"},
        backend="jax",
        devices=(_T4, CPU),
        nvidia=T4.facts(),
        nvidia_driver="550.54.15",
        cuda=CudaVersions(**_BUILT),
        providers=_LOADING,
        environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    ),
    "variables set": _computer(
        H100,
        _H100,
        tf32_in_use=False,
        environment={
            "NVIDIA_TF32_OVERRIDE": "0",
            "TF_ENABLE_AUTO_MIXED_PRECISION": "1",
            "TF_GPU_ALLOCATOR": "cuda_malloc_async",
            "TF_FP16_MATMUL_USE_FP32_COMPUTE": "0",
            "LD_LIBRARY_PATH": "/usr/local/cuda-11.8/lib64:/opt/lib",
            "CUDA_VISIBLE_DEVICES": "0",
        },
    ),
}
