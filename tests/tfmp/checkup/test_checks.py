"""doctor: each check on recorded machines, the machines as a whole, and this one."""

import json
from dataclasses import replace

import nvidia_machines as machines
import pytest
from notebook_cells import headline_and_page

from tfmp.checkup.checks import (
    CHECKS,
    check_device,
    check_environment,
    check_keras,
    check_requirements,
    check_xla,
    doctor,
)
from tfmp.checkup.report import DoctorReport
from tfmp.machine.devices import CPU, Device
from tfmp.machine.facts import Machine
from tfmp.machine.nvidia import NvidiaFacts
from tfmp.shared.backend import current_backend
from tfmp.shared.findings import Finding

T4 = Device("gpu", "Tesla T4", (7, 5))
GTX_1650 = Device("gpu", "NVIDIA GeForce GTX 1650", (7, 5))
A100 = Device("gpu", "NVIDIA A100-SXM4-40GB", (8, 0))


def only(diagnoses):
    (diagnosis,) = diagnoses
    return diagnosis


def test_a_healthy_machine_has_nothing_but_ok():
    packages = {"tensorflow": "2.21.0", "keras": "3.15.1", "onnxruntime-gpu": "1.26.0"}
    machine = Machine(packages=packages, devices=(T4, CPU), memory_growth=True)
    assert {diagnosis.status for check in CHECKS for diagnosis in check(machine)} == {"ok"}


def test_an_unmet_requirement_is_a_problem_with_the_command_that_fixes_it():
    machine = Machine(
        packages={"keras": "3.5.0"},
        unmet_requirements={"keras": "keras>=3.12", "onnx-ir": "onnx-ir>=0.1.12"},
    )
    first, second = check_requirements(machine)
    assert (first.status, first.message) == (
        "problem",
        "keras>=3.12 is required, but 3.5.0 is installed",
    )
    assert first.fix == 'Run: pip install "keras>=3.12"'
    assert second.message == "onnx-ir>=0.1.12 is required, but no version is installed"


@pytest.mark.parametrize(
    ("machine", "status", "text"),
    [
        (Machine(), "ok", "CPU only: policy='auto' trains in float32"),
        (
            Machine(devices=(A100, CPU), tf32_in_use=True),
            "ok",
            "Tensor Cores, bfloat16, float32 products in TF32",
        ),
    ],
)
def test_devices(machine, status, text):
    found = only(check_device(machine))
    assert found.status == status
    assert text in found.message


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("TF_FP16_CONV_USE_FP32_COMPUTE", "false", "warning"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "bfloat16", "note"),
        ("HOME", "/root", None),
    ],
)
def test_environment_variables(name, value, status):
    found = list(check_environment(Machine(environment={name: value})))
    assert [diagnosis.status for diagnosis in found] == ([status] if status else [])
    if status:
        assert found[0].message.startswith(f"{name}={value}: ")
        assert bool(found[0].fix) is (status == "warning")


def test_keras_settings():
    assert only(check_keras(Machine())).status == "ok"
    found = only(check_keras(Machine(floatx="float16")))
    assert (found.status, "~/.keras/keras.json" in found.fix) == ("warning", True)
    found = only(check_keras(Machine(dtype_policy="mixed_float16")))
    assert found.status == "note"
    found = only(check_keras(Machine(backend="numpy")))
    assert found.status == "problem"


def test_xla():
    assert only(check_xla(Machine(backend="jax"))).status == "ok"
    assert only(check_xla(Machine())).status == "ok"
    flags = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}
    assert only(check_xla(Machine(environment=flags))).status == "note"
    assert only(check_xla(Machine(jit=True))).status == "note"
    on_torch = only(check_xla(Machine(backend="torch", environment=flags)))
    assert (on_torch.status, "without XLA" in on_torch.message) == ("ok", True)


@pytest.mark.parametrize(
    ("backend", "platform", "fix"),
    [
        ("jax", "Linux", 'Run: pip install "jax[cuda13]"'),
        ("torch", "Windows", "Install its build for CUDA 13: pytorch.org/get-started/locally has"),
    ],
)
def test_a_card_that_the_backend_does_not_see(backend, platform, fix):
    nvidia = NvidiaFacts(driver="590.44", cuda=(13, 1))
    machine = Machine(
        nvidia_driver="590.44", nvidia=nvidia, backend=backend, platform=f"{platform} x86_64"
    )
    found = only(check_device(machine))
    assert f"but {backend} sees no GPU" in found.message
    assert found.fix.startswith(fix)


def test_the_whole_on_this_machine():
    report = doctor()
    document = json.loads(json.dumps(report.to_dict()))
    assert document["machine"]["devices"][-1]["kind"] == "cpu"
    assert "environment" not in document["machine"]  # it may hold secrets
    assert document["machine"]["unmet_requirements"] == {}
    assert document["machine"]["providers"]["CPUExecutionProvider"] == ""
    built = document["machine"]["cuda"]["built"]
    assert built or current_backend().name == "torch"  # whose build for processors has none
    assert len(str(report).splitlines()) >= len(report.diagnoses)


def test_the_table_fits_a_terminal():
    found = Finding("some check", "problem", "libraries " * 30, "Run: pip install " + "a" * 90)
    lines = str(DoctorReport((Finding("a", "ok", "fine"), found), Machine())).splitlines()
    assert lines[0] == "This machine has 1 problem (some check)."
    assert lines[2] == "status   check       found"
    assert lines[4] == "ok       a           fine"
    assert all(len(line) <= 100 for line in lines[4:] if "a" * 90 not in line)
    assert "a" * 90 in lines[-1]  # what is to be copied stays whole
    assert " ".join(" ".join(lines).split()).endswith(f"libraries Run: pip install {'a' * 90}")


def test_a_notebook_shows_a_row_for_each_finding():
    found = Finding("a", "problem", "broken", "mend it")
    report = DoctorReport((Finding("c", "warning", "slow"), found), Machine())
    headline, page = headline_and_page(report._repr_html_())
    assert headline == "✗ 1 problem (a), 1 warning (c). tfmp doctor"
    assert '<header class="fail">' in page
    assert '<th scope="row">problem</th><td>a</td><td>broken</td><td>mend it</td>' in page
    healthy = replace(report, diagnoses=())
    assert headline_and_page(healthy._repr_html_())[0] == "✓ no problem. tfmp doctor"


# By machine: status, check, a part of what was found, a part of how to fix it.
EXPECTED = {
    "GTX 1660": [
        (
            "warning",
            "card 0",
            "69% of its memory is taken: python3 (1893), game.exe (2204)",
            "Wait",
        ),
        ("note", "other users", "2 processes compute on the cards", "Measure times when these"),
        ("warning", "memory growth", "nearly all of the card", "TF_FORCE_GPU_ALLOW_GROWTH=true"),
        ("warning", "device", "GTX 1660 Ti (Turing, compute capability 7.5) has no Tensor", "auto"),
    ],
    "T4": [],
    "V100 with an old driver": [
        ("problem", "driver", "470.57.02, runs CUDA up to 11.4; TensorFlow is built", "525.60 or"),
        ("problem", "device", "470.57.02 is installed, but tensorflow sees no GPU", "Fix the"),
    ],
    "A100 with MIG": [("note", "card 0", "MIG is on: 3g.20gb, 1g.5gb", "DEVICES=MIG-")],
    "RTX 5090": [
        ("warning", "CUDA", "RTX 5090 (Blackwell, compute capability 12.0)", "nvcr.io/nvidia/"),
    ],
    "laptop without a driver": [
        ("warning", "driver", "NVIDIA cards in this computer: 1; there is no driver", "Install"),
    ],
    "driver that stopped": [
        ("problem", "driver", "NVML/RM version mismatch", "Restart the machine"),
        ("problem", "device", "570.133.07 is installed, but tensorflow sees no", "Fix the driver"),
    ],
    "Windows": [
        ("problem", "device", "tensorflow sees no GPU", "Install TensorFlow or JAX in WSL2")
    ],
    "card hidden": [
        ("warning", "environment", "CUDA_VISIBLE_DEVICES=-1: every card is hidden", "Unset"),
    ],
    "two CUDA majors": [
        (
            "problem",
            "CUDA",
            "nvidia-cudnn-cu12 and nvidia-cudnn-cu13 overwrite each other",
            "pip uninstall -y nvidia-cudnn-cu13; pip install --force-reinstall --no-deps "
            "nvidia-cudnn-cu12==9.3.0.75",
        ),
    ],
    "two ONNX Runtimes": [
        (
            "problem",
            "ONNX Runtime",
            "onnxruntime and onnxruntime-gpu are both installed",
            "pip uninstall -y onnxruntime onnxruntime-gpu; pip install onnxruntime-gpu==1.26.0",
        ),
    ],
    "TensorFlow without its CUDA": [
        ("problem", "CUDA", "TensorFlow is built for CUDA 12.5.1, but no CUDA", "[and-cuda]"),
        ("problem", "cuDNN", "built for cuDNN 9, but no cuDNN is installed", "[and-cuda]"),
        ("problem", "ONNX Runtime", "libcublasLt.so.12: cannot open", "tfmp[cuda]"),
        ("problem", "device", "driver 550.54.15 is installed, but tensorflow sees no", "and-cuda"),
    ],
    "JAX beside a TensorFlow without its CUDA": [
        ("note", "CUDA", "built for CUDA 12.5.1, but no CUDA is installed", "[and-cuda]"),
        ("note", "cuDNN", "built for cuDNN 9, but no cuDNN is installed", "[and-cuda]"),
    ],
    "variables set": [
        ("warning", "environment", "LD_LIBRARY_PATH has /usr/local/cuda-11.8/lib64", "Take /usr"),
        ("note", "CUDA", "compiles it at the first start, for minutes", "CUDA_CACHE_MAXSIZE"),
        ("note", "environment", "NVIDIA_TF32_OVERRIDE=0: TF32 is off", ""),
        ("warning", "environment", "TF_FP16_MATMUL_USE_FP32_COMPUTE=0: FP16 products", "Unset"),
        ("warning", "environment", "TF_ENABLE_AUTO_MIXED_PRECISION=1: NVIDIA", "Unset"),
        ("note", "environment", "TF_GPU_ALLOCATOR=cuda_malloc_async", ""),
        ("note", "environment", "CUDA_VISIBLE_DEVICES=0: programs see only these cards", ""),
    ],
}


def found_on(name: str):
    machine = machines.COMPUTERS[name]
    return [d for check in CHECKS for d in check(machine) if d.status != "ok"]


@pytest.mark.parametrize("name", machines.COMPUTERS)
def test_what_is_wrong_on_each_machine_and_how_to_fix_it(name):
    found = found_on(name)
    expected = EXPECTED[name]
    told = [(d.status, d.check, d.message) for d in found]
    assert [(d.status, d.check) for d in found] == [row[:2] for row in expected], told
    for diagnosis, (*_, message, fix) in zip(found, expected, strict=True):
        assert message in diagnosis.message
        assert fix in diagnosis.fix
        assert diagnosis.fix or diagnosis.status == "note"


def test_cards_on_the_bus_are_counted_without_a_driver(tmp_path):
    from tfmp.machine.nvidia import count_built_in

    for slot, vendor, kind in (
        ("0000:00:02.0", "0x8086", "0x030000"),  # Intel's graphics
        ("0000:01:00.0", "0x10de", "0x030000"),
        ("0000:01:00.1", "0x10de", "0x040300"),  # the card's sound
        ("0000:02:00.0", "0x10de", "0x030200"),
    ):
        (tmp_path / slot).mkdir()
        (tmp_path / slot / "vendor").write_text(vendor + "\n")
        (tmp_path / slot / "class").write_text(kind + "\n")
    (tmp_path / "0000:03:00.0").mkdir()  # one that says nothing
    assert count_built_in(tmp_path) == 2
    assert count_built_in(tmp_path / "nowhere") == 0
