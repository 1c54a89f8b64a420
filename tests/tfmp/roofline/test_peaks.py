"""Peaks from a datasheet, or measured where there is none."""

import pytest

from tfmp.machine.devices import CPU, Device
from tfmp.roofline import peaks
from tfmp.roofline.peaks import MEASURED, find_peaks


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(peaks, "_LONG_ENOUGH_S", 0.0)
    monkeypatch.setattr(peaks, "_COPIED_BYTES", 2**20)
    monkeypatch.setattr(peaks, "_TRIALS", 1)


def test_a_card_has_its_datasheet():
    found = find_peaks(Device("gpu", "NVIDIA A100-SXM4-40GB", (8, 0)), ("float16",), jit=True)
    assert found.source == "NVIDIA A100 datasheet (June 2021)"
    assert (found.flops["float16"], found.bandwidth) == (312e12, 1555e9)
    assert found.call_s > 0  # measured on the device that is there
    assert found.pass_s >= 0


@pytest.mark.parametrize(
    ("device", "tf32"), [(CPU, set()), (Device("gpu", "NVIDIA A10G", (8, 6)), {"tf32"})]
)
def test_others_are_measured(device, tf32):
    found = find_peaks(device, ("bfloat16", "string"), jit=False)
    assert found.source == MEASURED
    assert set(found.flops) == {"float32", "bfloat16"} | tf32  # text cannot be multiplied
    assert min(*found.flops.values(), found.bandwidth) > 1e6
