"""nvml: the cards that CUDA gives a process, in the driver's words; and a fake that is true."""

import inspect

import pynvml
import pytest
from fake_nvml import Fails, FakeCard, FakeNvml

from tfmp.machine.nvml import NoNvml, opened_nvml, visible_cards

SLICES = (
    FakeCard("NVIDIA A100 MIG 3g.20gb", "MIG-aaaa"),
    FakeCard("NVIDIA A100 MIG 1g.5gb", "MIG-bbbb"),
)
CARDS = (
    FakeCard("NVIDIA A100", "GPU-1111"),
    FakeCard("NVIDIA A100", "GPU-1234", mig=True, instances=SLICES),
    FakeCard("NVIDIA A100", "GPU-2222"),
)


def test_the_fake_has_the_signatures_of_pynvml():
    for name, function in inspect.getmembers(FakeNvml(), inspect.ismethod):
        if name.startswith("nvml"):
            real = list(inspect.signature(getattr(pynvml, name)).parameters)
            assert list(inspect.signature(function).parameters) == real, name


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, ["GPU-1111", "MIG-aaaa", "GPU-2222"]),  # of a split card CUDA takes an instance
        ("2,0", ["GPU-2222", "GPU-1111"]),
        ("GPU-22, 0", ["GPU-2222", "GPU-1111"]),
        ("MIG-bbbb", ["MIG-bbbb"]),
        ("MIG-bbbb,GPU-1111", ["MIG-bbbb", "GPU-1111"]),
        ("GPU-1", []),  # two cards begin with it
        ("0,9,2", ["GPU-1111"]),  # the first that names no card ends the list
        ("-1", []),
    ],
)
def test_cuda_visible_devices_by_number_and_uuid(monkeypatch, variable, expected):
    FakeNvml(cards=CARDS).install(monkeypatch)
    environment = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    with opened_nvml() as nvml:
        assert [card.uuid for card in visible_cards(nvml, environment)] == expected


@pytest.mark.parametrize(
    ("code", "text", "installed"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "NVIDIA's driver is not installed", False),
        (
            pynvml.NVML_ERROR_NO_PERMISSION,
            "NVIDIA's driver does not answer: Insufficient Permissions",
            True,
        ),
    ],
)
def test_a_driver_that_cannot_be_asked(monkeypatch, code, text, installed):
    FakeNvml(failure=Fails(code)).install(monkeypatch)
    with pytest.raises(NoNvml) as told, opened_nvml():
        raise AssertionError("it was opened")
    assert (str(told.value), told.value.installed) == (text, installed)
