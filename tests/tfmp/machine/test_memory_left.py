"""memory_left: of the computer, of a container, of a card."""

import pytest
from fake_nvml import NO_PERMISSION, FakeCard, FakeNvml

from tfmp.machine import memory_left as module
from tfmp.machine.devices import Device
from tfmp.machine.memory_left import card_memory, free_host_memory, free_memory
from tfmp.shared.backend import current_backend

MEMINFO = "MemTotal:       8000 kB\nMemFree:  100 kB\nMemAvailable:   4000 kB\n"


@pytest.mark.parametrize(
    ("limit", "used", "cache", "expected"),
    [
        (None, None, None, 4000 * 1024),
        ("max", "5", None, 4000 * 1024),
        ("3000000", "1000000", None, 2000000),
        ("3000000", "1000000", "anon 700000\ninactive_file 300000", 2300000),
        ("99000000", "1000000", None, 4000 * 1024),
        ("1000", "2000", None, 0),
    ],
)
def test_the_computer_and_the_limit_of_a_container(tmp_path, limit, used, cache, expected):
    (tmp_path / "meminfo").write_text(MEMINFO)
    for name, text in (
        ("memory.max", limit), ("memory.current", used), ("memory.stat", cache)
    ):  # fmt: skip
        if text is not None:
            (tmp_path / name).write_text(text + "\n")
    assert free_host_memory(tmp_path / "meminfo", tmp_path) == expected


def test_the_memory_of_this_process(tmp_path, monkeypatch):
    assert free_host_memory(tmp_path / "absent", tmp_path) is None
    monkeypatch.setattr(module, "accelerators", lambda: ())
    monkeypatch.setattr(module, "free_host_memory", lambda: 77)
    assert free_memory() == 77
    monkeypatch.setattr(module, "accelerators", lambda: (Device("gpu", "T4", (7, 5)),))
    monkeypatch.setattr(type(current_backend()), "memory_left", lambda own: 5)
    assert free_memory(in_this_process=True) == 5


@pytest.mark.parametrize(("used", "expected"), [(1000, 7000 * 2**20), (NO_PERMISSION, None)])
def test_a_card_for_other_processes(monkeypatch, used, expected):
    monkeypatch.setattr(module, "accelerators", lambda: (Device("gpu", "T4", (7, 5)),))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    FakeNvml(cards=(FakeCard(total=8000, used=used),)).install(monkeypatch)
    assert free_memory() == expected


def test_all_memory_of_the_card_that_is_named(monkeypatch):
    cards = (FakeCard(uuid="GPU-1", total=100), FakeCard(uuid="GPU-2", total=200))
    FakeNvml(cards=cards).install(monkeypatch)
    assert card_memory("GPU-2") == 200 * 2**20
    assert card_memory("GPU-9") is None
