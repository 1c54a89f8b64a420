"""doctor's checks of cards, drivers and CUDA, on recorded machines."""

from dataclasses import replace

import nvidia_machines as machines
import pytest

from tfmp.checkup.cuda import (
    check_cuda_generations,
    check_cuda_libraries,
    check_cuda_majors,
    check_driver,
    check_machine_code,
    check_memory_growth,
    check_providers,
)
from tfmp.machine.cuda_versions import CudaVersions, from_packages
from tfmp.machine.devices import CPU, Device
from tfmp.machine.facts import Machine

A100 = Device("gpu", "NVIDIA A100-SXM4-40GB", (8, 0))
CUDA_12 = {"nvidia-cuda-runtime-cu12": "12.5.82", "nvidia-cudnn-cu12": "9.3.0.75"}


def on(recorded, **facts):
    return Machine(nvidia=machines.facts_of(recorded), **facts)


def statuses(check, machine):
    return [diagnosis.status for diagnosis in check(machine)]


@pytest.mark.parametrize(
    ("recorded", "built", "status"),
    [
        (machines.H100, "12.5.1", "ok"),
        (machines.V100, "12.5.1", "problem"),  # driver 470 runs CUDA 11 only
        (machines.V100, "11.8", "ok"),
        (machines.T4, "13.0", "problem"),
        (machines.V100, "", "ok"),
    ],
)
def test_the_driver_against_what_tensorflow_was_built_for(recorded, built, status):
    (found,) = check_driver(on(recorded, cuda=CudaVersions(built=built)))
    assert found.status == status
    if status == "problem":
        assert f"built for CUDA {built}" in found.message
        assert found.fix.startswith("Install driver ")


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        (
            {"nvidia-cuda-runtime-cu11": "11.8.89", "nvidia-cudnn-cu11": "8.9.6"},
            [("CUDA", "problem"), ("cuDNN", "problem")],
        ),
        ({**CUDA_12, "nvidia-cudnn-cu12": "8.9.7"}, [("CUDA", "ok"), ("cuDNN", "problem")]),
    ],
)
def test_cuda_and_cudnn_built_for_against_found(packages, expected):
    cuda = from_packages(packages, built="12.5.1", built_cudnn="9")
    found = list(check_cuda_libraries(on(machines.T4, cuda=cuda)))
    assert [(d.check, d.status) for d in found] == expected
    assert all(bool(d.fix) is (d.status == "problem") for d in found)


@pytest.mark.parametrize(("devices", "status"), [((A100, CPU), "problem"), ((CPU,), "warning")])
def test_two_generations_of_cuda_side_by_side(devices, status):
    # From 13 on NVIDIA's packages carry no generation in their names.
    cuda = from_packages({**CUDA_12, "nvidia-cuda-runtime": "13.0.48"}, built="12.5.1")
    assert cuda.majors == (12, 13)
    assert cuda.found == "12.5.82"
    (found,) = check_cuda_majors(Machine(cuda=cuda, devices=devices))
    assert (found.status, found.message) == (
        status,
        "libraries of CUDA 12 and 13 are installed side by side",
    )
    assert list(check_cuda_majors(Machine(cuda=from_packages(CUDA_12, "12.5.1")))) == []


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
        ((7, 5), None),
        ((8, 6), None),
        ((8, 9), None),
        ((9, 0), "note"),  # PTX of its own generation
        ((10, 0), "warning"),
        ((12, 0), "warning"),
    ],
)
def test_machine_code_for_the_card(capability, status):
    device = Device("gpu", "some card", capability)
    machine = Machine(devices=(device, CPU), cuda=CudaVersions(built="12.5.1", code_for=CODE))
    assert statuses(check_machine_code, machine) == ([status] if status else [])
    assert statuses(check_machine_code, replace(machine, backend="jax")) == []
    assert statuses(check_machine_code, replace(machine, cuda=CudaVersions())) == []


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


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"memory_growth": False}, "note"),
        ({"memory_growth": True}, "ok"),
        ({"memory_growth": False, "environment": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}}, "ok"),
        ({"backend": "jax"}, "note"),
        ({"backend": "jax", "environment": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}}, "ok"),
    ],
)
def test_memory_growth(facts, status):
    machine = on(machines.H100, devices=(A100, CPU), **facts)
    assert statuses(check_memory_growth, machine) == [status]
