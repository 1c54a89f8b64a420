"""auto: which policy a device gets, and the reason that is shown for it."""

import pytest

from tfmp.machine.devices import CPU, Device
from tfmp.precision.auto_policy import choose

T4 = Device("gpu", "Tesla T4", (7, 5))
GTX_1650 = Device("gpu", "NVIDIA GeForce GTX 1650", (7, 5))
A100 = Device("gpu", "NVIDIA A100-SXM4-40GB", (8, 0))
METAL = Device("gpu", "METAL")
TPU = Device("tpu", "TPU v4")


@pytest.mark.parametrize(
    ("device", "policy", "with_bfloat16", "reason"),
    [
        (CPU, "float32", "float32", "CPU only"),
        (T4, "mixed_float16", "mixed_float16", "FP16 on Tensor Cores"),
        (GTX_1650, "float32", "float32", "no Tensor Cores"),
        (A100, "mixed_float16", "mixed_bfloat16", "TF32"),
        (METAL, "float32", "float32", "not known to have Tensor Cores"),
        (TPU, "float32", "mixed_bfloat16", "no FP16"),
    ],
)
def test_one_device(device, policy, with_bfloat16, reason):
    choice = choose([device])
    assert choice.policy == policy
    assert reason in choice.reason
    assert choose([device], allow_bfloat16=True).policy == with_bfloat16


def test_the_cpu_counts_only_where_it_is_alone():
    assert choose([T4, CPU]).policy == "mixed_float16"
    assert choose([CPU]) == choose([])


def test_the_weakest_of_several_cards_decides():
    choice = choose([A100, GTX_1650, CPU])
    assert choice.policy == "float32"
    assert "GTX 1650" in choice.reason


def test_the_reason_names_the_device():
    assert choose([T4]).reason.startswith("Tesla T4 (Turing, compute capability 7.5): ")
