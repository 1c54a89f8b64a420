"""doctor's checks of cards, drivers and CUDA, on recorded machines."""

from dataclasses import replace

import nvidia_machines as machines
import pytest

from tfmp.checkup.cuda import (
    check_cuda_generations,
    check_cuda_libraries,
    check_machine_code,
    check_memory_growth,
    check_providers,
)
from tfmp.machine.cuda_versions import CudaVersions
from tfmp.machine.devices import CPU, Device
from tfmp.machine.facts import Machine

A100 = Device("gpu", "NVIDIA A100-SXM4-40GB", (8, 0))


def on(recorded, **facts):
    return Machine(nvidia=machines.facts_of(recorded), **facts)


def statuses(check, machine):
    return [diagnosis.status for diagnosis in check(machine)]


@pytest.mark.parametrize(
    ("version", "devices", "expected"),
    [
        ("1.26.0", (A100, CPU), []),
        ("1.27.0", (A100, CPU), ["problem"]),
        ("1.31.1", (CPU,), ["note"]),
    ],
)
def test_a_runtime_of_another_cuda_generation(version, devices, expected):
    packages = {"tensorflow": "2.21.0", "onnxruntime-gpu": version}
    found = list(check_cuda_generations(Machine(packages=packages, devices=devices)))
    assert [diagnosis.status for diagnosis in found] == expected


CODE = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")


@pytest.mark.parametrize(
    ("capability", "status"),
    [
        ((5, 2), "problem"),  # Maxwell: older than all
        ((6, 1), None),  # sm_60 runs on every 6.x
        ((8, 9), None),
        ((9, 0), "note"),  # PTX of its own generation
        ((10, 0), "warning"),
    ],
)
def test_machine_code_for_the_card(capability, status):
    device = Device("gpu", "some card", capability)
    machine = Machine(devices=(device, CPU), cuda=CudaVersions(built="12.5.1", code_for=CODE))
    assert statuses(check_machine_code, machine) == ([status] if status else [])
    assert statuses(check_machine_code, replace(machine, backend="jax")) == []
    of_pytorch = list(check_machine_code(replace(machine, backend="torch")))
    assert all(found.message.startswith("this PyTorch has no ") for found in of_pytorch)
    assert bool(of_pytorch) is bool(status)
    assert statuses(check_machine_code, replace(machine, cuda=CudaVersions())) == []


@pytest.mark.parametrize(
    ("backend", "devices", "expected"),
    [
        ("torch", (CPU,), [("problem", "PyTorch is built for CUDA 12.8")]),
        ("torch", (A100, CPU), []),  # it has them in itself
    ],
)
def test_a_framework_whose_libraries_are_not_there(backend, devices, expected):
    built = CudaVersions(built="12.8")
    found = check_cuda_libraries(on(machines.T4, backend=backend, devices=devices, cuda=built))
    told = [(each.status, each.message.partition(", but no CUDA")[0]) for each in found]
    assert told == expected


CPU_PROVIDER, CUDA_PROVIDER = "CPUExecutionProvider", "CUDAExecutionProvider"


def test_providers_that_load_and_one_that_should():
    providers = {CUDA_PROVIDER: "libcudnn.so.9: cannot open", CPU_PROVIDER: ""}
    (fine,) = check_providers(on(machines.NONE, providers=providers))
    assert (fine.status, fine.message) == (
        "ok",
        "providers that load: CPU; built in, but do not load: CUDA",
    )
    _, missing = check_providers(on(machines.T4, providers=providers))
    assert missing.status == "problem"
    assert "libcudnn.so.9: cannot open" in missing.message
    assert missing.fix == 'Run: pip install "tfmp[cuda]"'


def test_the_build_without_cuda_on_a_machine_with_a_card():
    machine = on(
        machines.T4,
        providers={CPU_PROVIDER: ""},
        packages={"onnxruntime": "1.26.0"},
        devices=(A100, CPU),
    )
    assert statuses(check_providers, machine) == ["ok", "warning"]


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"memory_growth": False}, "note"),
        ({"memory_growth": True}, "ok"),
        ({"environment": {"TF_FORCE_GPU_ALLOW_GROWTH": "1"}}, "ok"),
        ({"backend": "jax"}, "note"),
        ({"backend": "torch"}, "ok"),
        ({"backend": "jax", "environment": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}}, "ok"),
    ],
)
def test_memory_growth(facts, status):
    machine = on(machines.H100, devices=(A100, CPU), **facts)
    assert statuses(check_memory_growth, machine) == [status]
