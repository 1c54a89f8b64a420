"""doctor on whole recorded machines: everything that is not ok, in the order of the report."""

import nvidia_machines as machines
import pytest

from tfmp.checkup.checks import CHECKS

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
    "H100": [("note", "CUDA", "compiles it at the first start, for minutes", "CUDA_CACHE_MAXSIZE")],
    "H100 with MIG, in a container": [
        ("note", "CUDA", "compiles it at the first start, for minutes", "CUDA_CACHE_MAXSIZE"),
        ("note", "card 0", "MIG is on: 3g.40gb, 1g.10gb+me", "CUDA_VISIBLE_DEVICES=MIG-"),
    ],
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
