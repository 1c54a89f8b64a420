"""measuring: turns that are fair, medians of what was taken, and memory that is really held."""

import numpy as np
import pytest

from tfmp.machine import measuring
from tfmp.machine.measuring import Memory, PeakMemory, Timing, bytes_text, interleaved, seconds_text
from tfmp.shared import watched
from tfmp.shared.backend import of_jax, of_tensorflow


def test_every_round_begins_with_another():
    taken = []

    def block(name):
        return lambda: taken.append(name) or float(len(taken))

    found = interleaved({name: block(name) for name in "abc"}, rounds=3)
    assert "".join(taken) == "abcbcacab"
    assert found["a"].seconds == (1.0, 6.0, 8.0)


def test_a_timing_says_what_is_typical_and_how_far_it_spreads():
    timing = Timing(tuple(float(n) for n in (11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)))
    assert (timing.median, timing.low, timing.high) == (6.0, 2.0, 10.0)
    assert timing.spread == pytest.approx(8 / 6)
    few = Timing((3.0, 1.0, 2.0))
    assert (few.low, few.high) == (1.0, 3.0)
    assert few.per(10).seconds == (0.3, 0.1, 0.2)
    assert few.to_dict()["seconds"] == [3.0, 1.0, 2.0]
    # The machine slows down: medians alone would say the second is as fast as the first.
    assert measuring.paired_ratio(Timing((2.0, 4.0, 8.0)), Timing((1.0, 2.0, 4.0))) == 2.0
    assert measuring.timed(lambda: None) >= 0


@pytest.mark.parametrize(
    ("count", "interval"),
    # The sign test's tables: ranks that enclose the median with at least 95 %.
    [(1, None), (6, (1, 6)), (10, (2, 9)), (20, (6, 15))],
)
def test_the_interval_of_a_median(count, interval):
    assert measuring.median_interval(range(count, 0, -1)) == interval


@pytest.mark.slow
def test_the_peak_is_seen_after_it_was_given_back():
    def metered():
        meter = PeakMemory()
        held = np.ones((64, 2**20), np.uint8)
        del held
        return meter.read()

    # A system short of memory takes pages away meanwhile: the largest of a few is the best number.
    peak = max((metered() for _ in range(3)), key=lambda memory: memory.bytes)
    assert peak.bytes >= 60 * 2**20
    process = (measuring.PROCESS_MEMORY, measuring.POOLED_MEMORY, measuring.PROCESS_LIFETIME)
    assert peak.source in process


def test_where_the_peak_cannot_be_reset_it_is_labelled(monkeypatch, tmp_path):
    monkeypatch.setattr(watched, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    found = PeakMemory().read()
    assert found.source == "process memory since its start"
    assert found.bytes > 2**20


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (MemoryError(), True),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes"), True),
        (RuntimeError("OOM when allocating tensor with shape[1]"), True),
        # PyTorch 2.13, on a processor.
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"), True),
        (ValueError("shapes do not fit"), False),
    ],
)
def test_what_is_running_out_of_memory(error, answer):
    assert measuring.is_out_of_memory(error) is answer


def test_a_small_difference_of_process_memory_is_noise():
    small, large = (Memory(n, measuring.PROCESS_MEMORY) for n in (2**20, 2**22))
    assert small.share_of(large) is None
    assert Memory(2**26, measuring.PROCESS_MEMORY).share_of(Memory(2**27, small.source)) == 0.5
    assert Memory(1, measuring.DEVICE_MEMORY).share_of(Memory(4, measuring.DEVICE_MEMORY)) == 0.25
    assert small.share_of(Memory(0, small.source)) is None


def test_a_pool_shows_only_its_growth(monkeypatch):
    for used in (True, False):
        monkeypatch.setattr(of_tensorflow, "tensorflow_uses_onednn", lambda used=used: used)
        assert of_tensorflow.TensorFlow().pools_memory() is used
    assert not of_jax.Jax().pools_memory()
    least = Memory(2**30, measuring.POOLED_MEMORY)
    assert least.text == "≥ 1 GiB"
    assert least.share_of(Memory(2**33, measuring.POOLED_MEMORY)) is None


def test_numbers_as_people_read_them():
    assert seconds_text(1.234) == "1.23 s"
    assert seconds_text(0.0456) == "45.6 ms"
    assert seconds_text(7.89e-4) == "789 µs"
    assert [seconds_text(s) for s in (100.2, 300, 9000)] == ["100 s", "5 min", "2.5 h"]
    assert [bytes_text(n) for n in (12, 2048, 1e6, 3 * 2**20, 1.5 * 2**30, 2**41)] == [
        "12 B",
        "2 KiB",
        "977 KiB",
        "3 MiB",
        "1.5 GiB",
        "2 TiB",
    ]
    assert str(Memory(2**20, measuring.DEVICE_MEMORY)) == "1 MiB of device memory"
    assert (bytes_text(1023 * 1024), seconds_text(0.9999)) == ("1020 KiB", "1000 ms")
