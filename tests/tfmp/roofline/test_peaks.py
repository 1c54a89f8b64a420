"""Peaks, measured on the device that is there."""

import pytest

from tfmp.machine.devices import CPU, Device
from tfmp.roofline import peaks
from tfmp.roofline.peaks import find_peaks


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(peaks, "_LONG_ENOUGH_S", 0.0)
    monkeypatch.setattr(peaks, "_COPIED_BYTES", 2**20)
    monkeypatch.setattr(peaks, "_TRIALS", 1)


@pytest.mark.parametrize(
    ("device", "tf32"), [(CPU, set()), (Device("gpu", "NVIDIA A10G", (8, 6)), {"tf32"})]
)
def test_peaks_are_measured(device, tf32):
    found = find_peaks(device, ("bfloat16", "string"), jit=False)
    assert set(found.flops) == {"float32", "bfloat16"} | tf32  # text cannot be multiplied
    assert min(*found.flops.values(), found.bandwidth) > 1e6
    assert found.call_s > 0
    assert found.pass_s >= 0
