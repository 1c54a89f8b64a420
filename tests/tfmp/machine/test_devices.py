"""hardware: facts read from what drivers say, as recorded on real machines."""

import pytest

from tfmp.machine import devices
from tfmp.machine.devices import CPU, Device
from tfmp.shared.backend import of_jax, of_tensorflow


def parse_tensorflow(*facts) -> Device:
    return Device(*of_tensorflow.facts_of(*facts))


def parse_jax(*facts) -> Device:
    return Device(*of_jax.facts_of(*facts))


# name and compute capability as TensorFlow and JAX report them for the card
CARDS = [
    # name, capability, architecture, Tensor Cores, TF32
    ("Tesla P100-PCIE-16GB", (6, 0), "Pascal", False, False),
    ("Tesla V100-SXM2-16GB", (7, 0), "Volta", True, False),
    ("Tesla T4", (7, 5), "Turing", True, False),
    ("NVIDIA GeForce GTX 1650", (7, 5), "Turing", False, False),
    ("GeForce MX450", (7, 5), "Turing", False, False),
    ("NVIDIA T1000 8GB", (7, 5), "Turing", False, False),
    ("Quadro T2000", (7, 5), "Turing", False, False),
    ("NVIDIA A100-SXM4-40GB", (8, 0), "Ampere", True, True),
    ("NVIDIA L4", (8, 9), "Ada Lovelace", True, True),
    ("NVIDIA H100 80GB HBM3", (9, 0), "Hopper", True, True),
    ("NVIDIA GeForce RTX 5090", (12, 0), "Blackwell", True, True),
]


@pytest.mark.parametrize(("name", "capability", "architecture", "cores", "tf32"), CARDS)
def test_cards(name, capability, architecture, cores, tf32):
    device = parse_tensorflow("GPU", {"device_name": name, "compute_capability": capability})
    assert device.architecture == architecture
    assert device.tensor_cores is cores
    assert device.tf32 is tf32
    assert device.bfloat16 is tf32  # both came with Ampere


def test_both_backends_describe_a_card_alike():
    told = {"device_name": "NVIDIA H200", "compute_capability": (9, 0)}
    card = Device("gpu", "NVIDIA H200", (9, 0))
    assert parse_jax("gpu", "NVIDIA H200", "9.0") == parse_tensorflow("GPU", told) == card
    assert str(card) == "NVIDIA H200 (Hopper, compute capability 9.0)"


def test_devices_that_are_no_nvidia_cards():
    for device in (
        parse_jax("rocm", "AMD Instinct MI300X", "gfx942"),
        parse_tensorflow("GPU", {"device_name": "METAL"}),
    ):
        assert device.kind == "gpu"
        assert device.compute_capability is None
        assert not device.tensor_cores
        assert device.architecture is None
    tpu = parse_jax("tpu", "TPU v4", None)
    assert (tpu.kind, tpu.bfloat16, tpu.tensor_cores) == ("tpu", True, False)
    assert parse_tensorflow("CPU", {}) == CPU
    assert not CPU.tensor_cores
    assert devices.tf32_in_use(CPU) is False
    assert parse_tensorflow("XPU", {"device_name": "Intel Arc"}).kind == "other"


def test_devices_end_with_the_cpu():
    assert devices.visible_devices()[-1] == CPU
    assert CPU not in devices.accelerators()
