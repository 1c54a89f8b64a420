"""GpuUse: the samples of a watched block, on cards that are not here."""

import threading
import time

import pynvml
import pytest
from fake_nvml import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Fails, FakeCard, FakeNvml

from tfmp.machine import gpu_use
from tfmp.machine.devices import CPU, Device
from tfmp.machine.gpu_use import GpuWatch

NAME = "NVIDIA H100 80GB HBM3"
H100 = Device("gpu", NAME, (9, 0))


def busy_card(**facts):
    known = {
        "busy": 60,
        "memory_busy": 20,
        "used": 2048,
        "power": 350,
        "power_limit": 700,
        "clock": 1755,
        "most_clock": 1980,
        "reasons": pynvml.nvmlClocksEventReasonSwPowerCap,
    }
    return FakeCard(NAME, **{**known, **facts})


def watched(monkeypatch, *cards, device=H100, samples=3, **driver):
    """The watch after a block that lasts until so many samples are taken."""
    FakeNvml(cards=cards, **driver).install(monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpu_use, "_SETTLING_S", 0.0)
    monkeypatch.setattr(gpu_use, "_INTERVAL_S", 0.0)
    with GpuWatch(device) as watch:
        limit = time.monotonic() + 20
        while watch._thread and len(watch._samples) < samples and time.monotonic() < limit:
            time.sleep(0.001)
    return watch


def test_a_busy_card(monkeypatch):
    use = watched(monkeypatch, busy_card()).use
    assert use.samples >= 4
    assert (use.busy, use.memory_busy, use.memory_bytes) == (0.6, 0.2, 2 * 2**30)
    assert (use.power_w, use.power_limit_w) == (350, 700)
    assert (use.clock_mhz, use.most_clock_mhz, use.whole_card) == (1755, 1980, False)
    assert use.slowed == {"its power limit": 1.0}
    assert str(use) == (
        "a kernel ran 60% of the time, its memory was busy 20%, 2 GiB in use, 350 of 700 W, "
        "1755 of 1980 MHz, slowed by its power limit 100% of the time"
    )


def test_reasons_of_a_slow_card(monkeypatch):
    idle = pynvml.nvmlClocksEventReasonGpuIdle
    use = watched(monkeypatch, busy_card(busy=0, reasons=idle)).use
    assert (use.busy, use.slowed) == (0.0, {})
    assert "slowed" not in str(use)
    both = (
        pynvml.nvmlClocksEventReasonSwThermalSlowdown
        | pynvml.nvmlClocksEventReasonHwThermalSlowdown
    )
    assert watched(monkeypatch, busy_card(reasons=both)).use.slowed == {"heat": 1.0}
    cap = pynvml.nvmlClocksThrottleReasonSwPowerCap
    use = watched(monkeypatch, busy_card(reasons=FUNCTION_NOT_FOUND, old_reasons=cap)).use
    assert use.slowed == {"its power limit": 1.0}


def test_other_cards(monkeypatch):
    card = busy_card(power=NOT_SUPPORTED, power_limit=NOT_SUPPORTED)
    use = watched(monkeypatch, card).use
    assert (use.power_w, use.power_limit_w, use.busy) == (None, None, 0.6)
    assert " W" not in str(use)
    part = FakeCard(f"{NAME} MIG 1g.10gb", "MIG-aa", used=512, busy=NOT_SUPPORTED)
    use = watched(monkeypatch, busy_card(mig=True, instances=(part,))).use
    assert use.card == f"{NAME} MIG 1g.10gb"
    assert (use.busy, use.memory_bytes, use.power_w) == (None, 512 * 2**20, 350)
    assert use.whole_card
    assert "350 of 700 W (whole card)" in str(use)
    other = busy_card(busy=1)
    other.name = "NVIDIA T1000"
    assert watched(monkeypatch, other, busy_card()).use.busy == 0.6


@pytest.mark.parametrize(
    ("device", "driver", "text"),
    [
        (CPU, {}, "the use of a GPU was not watched: this device is no GPU"),
        (
            H100,
            {"failure": Fails(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)},
            "the use of the GPU was not watched: NVIDIA's driver is not installed",
        ),
        (H100, {}, "the use of the GPU was not watched: its driver shows no GPU to this process"),
    ],
)
def test_nothing_to_watch_costs_no_thread_and_is_said(monkeypatch, device, driver, text):
    before = threading.active_count()
    watch = watched(monkeypatch, device=device, **driver)
    assert (watch.use, watch.why_not) == (None, text)
    assert threading.active_count() == before


def test_an_error_in_the_block_comes_through_and_ends_the_thread(monkeypatch):
    driver = FakeNvml(cards=(busy_card(),)).install(monkeypatch)
    with pytest.raises(ZeroDivisionError), GpuWatch(H100) as watch:
        raise ZeroDivisionError
    assert not watch._thread.is_alive()
    assert driver.opened == 0
