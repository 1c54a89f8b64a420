"""What NVIDIA's driver says on machines of several kinds. UUIDs are shortened."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pynvml
import pytest
from fake_nvml import NO_PERMISSION, Fails, FakeCard, FakeNvml

from tfmp.machine.cuda_versions import CudaVersions, from_packages
from tfmp.machine.devices import CPU, Device
from tfmp.machine.facts import Machine
from tfmp.machine.nvidia import NvidiaFacts, read_nvidia


def facts_of(driver: FakeNvml) -> NvidiaFacts:
    """The facts that are read on a machine with this driver."""
    with pytest.MonkeyPatch.context() as patch:
        driver.install(patch)
        return replace(read_nvidia(), built_in=0)


_A100 = "NVIDIA A100-SXM4-40GB"
_H100 = "NVIDIA H100 80GB HBM3"

V100 = FakeNvml(
    "470.57.02", 11040, (FakeCard("Tesla V100-SXM2-16GB", "GPU-5f3e", (7, 0), 16160, 0),)
)
T4 = FakeNvml("550.54.15", 12040, (FakeCard("Tesla T4", "GPU-0a1b", (7, 5), 15360, 3),))
GTX_1660 = FakeNvml(
    "535.183.01",
    12020,
    (
        FakeCard(
            "NVIDIA GeForce GTX 1660 Ti",
            "GPU-77aa",
            (7, 5),
            6144,
            4211,
            users=((1893, 3870), (2204, None)),
        ),
    ),
    programs={1893: "/usr/bin/python3", 2204: "C:\\Games\\a, b\\game.exe"},
)
A100_MIG = FakeNvml(
    "535.104.05",
    12020,
    (
        FakeCard(
            _A100,
            "GPU-1111",
            (8, 0),
            40960,
            88,
            mig=True,
            instances=(
                FakeCard(f"{_A100} MIG 3g.20gb", "MIG-aaaa", (8, 0), 20096, 44),
                FakeCard(f"{_A100} MIG 1g.5gb", "MIG-bbbb", (8, 0), 4864, 13),
            ),
        ),
        FakeCard(_A100, "GPU-2222", (8, 0), 40960, 4, mig=False),
    ),
)
H100 = FakeNvml("580.65.06", 13000, (FakeCard(_H100, "GPU-9c9c", (9, 0), 81559, 61, mig=False),))
H100_MIG = FakeNvml(
    "550.90.07",
    12040,
    (
        FakeCard(
            _H100,
            "GPU-4d4d",
            (9, 0),
            81559,
            NO_PERMISSION,
            mig=True,
            instances=(
                FakeCard(f"{_H100} MIG 3g.40gb", "MIG-cccc", (9, 0), 40448, 44),
                FakeCard(f"{_H100} MIG 1g.10gb+me", "MIG-dddd", (9, 0), 9856, 13),
            ),
            users=NO_PERMISSION,
        ),
    ),
)
RTX_5090 = FakeNvml(
    "590.48.01", 13010, (FakeCard("NVIDIA GeForce RTX 5090", "GPU-5090", (12, 0), 32607, 410),)
)
NONE = FakeNvml(failure=Fails(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))

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


def _computer(recorded: FakeNvml, *devices: Device, packages: Any = (), **facts: Any) -> Machine:
    """A Linux machine with tfmp[cuda] as pip installs it."""
    installed = {**_FRAMEWORKS, **_CUDA_12, **dict(packages)}
    nvidia = facts_of(recorded)
    known: dict[str, Any] = {
        "platform": "Linux x86_64",
        "packages": installed,
        "devices": (*devices, CPU),
        "tf32_in_use": bool(devices) and devices[0].tf32,
        "nvidia": replace(nvidia, built_in=len(nvidia.cards)),
        "nvidia_driver": nvidia.driver,
        "cuda": from_packages(installed, CudaVersions(**_BUILT)),
        "providers": _LOADING if nvidia.driver else _NOT_LOADING,
        "memory_growth": True if devices else None,
        "environment": {"HOME": "/home/a", "PATH": "/usr/bin"},
    }
    return Machine(**{**known, **facts})


def _as_tensorflow_names(recorded: FakeNvml) -> Device:
    card = recorded.cards[0]
    return Device("gpu", card.name, card.capability)


_ON_T4, _ON_A100, _ON_H100 = (_as_tensorflow_names(each) for each in (T4, A100_MIG, H100))
_WITHOUT_CUDA = {**_FRAMEWORKS}

# Whole machines, with everything that doctor asks.
COMPUTERS: Mapping[str, Machine] = {
    "GTX 1660": _computer(GTX_1660, _as_tensorflow_names(GTX_1660), memory_growth=False),
    "T4": _computer(T4, _ON_T4),
    "V100 with an old driver": _computer(V100),
    "A100 with MIG": _computer(A100_MIG, _ON_A100),
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
            error="NVIDIA's driver does not answer: RM has detected an NVML/RM version mismatch.",
            built_in=1,
        ),
        nvidia_driver="570.133.07",
    ),
    "Windows": _computer(T4, platform="Windows AMD64", environment={}),
    "card hidden": _computer(T4, environment={"CUDA_VISIBLE_DEVICES": "-1"}),
    "two CUDA majors": _computer(
        T4, _ON_T4, packages={"nvidia-cuda-runtime": "13.0.48", "nvidia-cudnn-cu13": "9.13.0.50"}
    ),
    "two ONNX Runtimes": _computer(
        T4, _ON_T4, packages={"onnxruntime": "1.26.0", "onnxruntime-extensions": "0.14.0"}
    ),
    "TensorFlow without its CUDA": Machine(
        packages=_WITHOUT_CUDA,
        nvidia=facts_of(T4),
        nvidia_driver="550.54.15",
        cuda=CudaVersions(**_BUILT),
        providers=_NOT_LOADING,
    ),
    "JAX beside a TensorFlow without its CUDA": Machine(
        packages={**_WITHOUT_CUDA, "jax": "0.10.2"},
        backend="jax",
        devices=(_ON_T4, CPU),
        nvidia=facts_of(T4),
        nvidia_driver="550.54.15",
        cuda=CudaVersions(**_BUILT),
        providers=_LOADING,
        environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    ),
    "variables set": _computer(
        H100,
        _ON_H100,
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
