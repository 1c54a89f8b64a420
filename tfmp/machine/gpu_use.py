"""GpuUse: how busy a card was while something ran: kernels, memory, power, clocks."""

import os
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import TypeAlias

from tfmp.machine.devices import Device
from tfmp.machine.measuring import bytes_text
from tfmp.machine.nvml import Handle, NoNvml, opened_nvml, told, visible_cards
from tfmp.shared.wording import joined

# NVML's utilisation is that of the last sixth of a second to a second, depending on the card
# (NVML API Reference, nvmlUtilization_t): what was before the work must have left it.
_SETTLING_S, _INTERVAL_S = 1.0, 0.1

# A reason for lower clocks that holds for less than this share of the time is not worth a word.
_OFTEN = 0.05

# NVML's reasons for clocks below the highest, by the end of the constant's name. Idleness and a
# user's own setting are not among them: they are no trouble.
_REASONS = {
    "SwPowerCap": "its power limit",
    "HwSlowdown": "a hardware slow-down (heat or power)",
    "SwThermalSlowdown": "heat",
    "HwThermalSlowdown": "heat",
    "HwPowerBrakeSlowdown": "the power supply's brake",
    "SyncBoost": "another card of its boost group",
}


@dataclass(frozen=True)
class GpuUse:
    """The use of one card, as its driver samples it; None for a fact that it does not tell.

    Attributes:
        card: the driver's name of the card or MIG instance.
        seconds: length of the watched time.
        samples: number of samples in it.
        busy: share of the time in which at least one kernel ran; it says nothing about how much
            of the card the kernel filled.
        memory_busy: share of the time in which the card's memory was read or written.
        memory_bytes: most memory in use, by all processes.
        power_w: mean power.
        power_limit_w: the power that the card may take.
        clock_mhz: median clock of the multiprocessors.
        most_clock_mhz: their highest clock.
        slowed: by reason, the share of samples in which the clocks were lower because of it.
        whole_card: whether power and clocks are of a card that a MIG instance is a part of.
    """

    card: str
    seconds: float
    samples: int
    busy: float | None = None
    memory_busy: float | None = None
    memory_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    clock_mhz: float | None = None
    most_clock_mhz: int | None = None
    slowed: Mapping[str, float] = field(default_factory=dict)
    whole_card: bool = False

    def __str__(self) -> str:
        parts = []
        if self.busy is not None:
            parts.append(f"a kernel ran {self.busy:.0%} of the time")
        if self.memory_busy is not None:
            parts.append(f"its memory was busy {self.memory_busy:.0%}")
        if self.memory_bytes is not None:
            parts.append(f"{bytes_text(self.memory_bytes)} in use")
        of_card = " (whole card)" if self.whole_card else ""
        if self.power_w is not None:
            most = "" if self.power_limit_w is None else f" of {self.power_limit_w:.0f}"
            parts.append(f"{self.power_w:.0f}{most} W{of_card}")
        if self.clock_mhz is not None:
            most = "" if self.most_clock_mhz is None else f" of {self.most_clock_mhz}"
            parts.append(f"{self.clock_mhz:.0f}{most} MHz{of_card}")
        often = [f"{why} {share:.0%}" for why, share in self.slowed.items() if share >= _OFTEN]
        if often:
            parts.append(f"slowed by {joined(often)} of the time")
        return ", ".join(parts) or "its driver does not report its use"


class GpuWatch:
    """Samples a card's use in a thread, for as long as the block lasts.

    On a machine without a card that NVML knows, the block runs as it is, without a thread.

    Args:
        device: the device that the work is on.

    Attributes:
        use: after the block, the card's use; None if it could not be watched.
        why_not: the reason for that, in a sentence.
    """

    def __init__(self, device: Device) -> None:
        self.use: GpuUse | None = None
        self.why_not = ""
        self._device = device
        self._samples: list[_Sample] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "GpuWatch":
        if self._device.kind != "gpu":
            self.why_not = "the use of a GPU was not watched: this device is no GPU"
            return self
        try:
            self._nvml = self._stack.enter_context(opened_nvml())
        except NoNvml as error:
            self.why_not = f"the use of the GPU was not watched: {error}"
            return self
        cards = visible_cards(self._nvml, os.environ)
        # CUDA may count cards of several models in another order.
        same = [card for card in cards if _name(self._nvml, card).startswith(self._device.name)]
        if not cards:
            self.why_not = (
                "the use of the GPU was not watched: its driver shows no GPU to this process"
            )
            self._stack.close()
            return self
        self._card = (same or cards)[0]
        self._began = time.perf_counter()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._thread is None:
            return
        self._over.set()
        self._thread.join()
        self._samples.append(_sample(self._nvml, self._card))  # one at least, at the end
        seconds = time.perf_counter() - self._began
        self.use = _summary(self._nvml, self._card, self._samples, seconds)
        self._stack.close()

    def _watch(self) -> None:
        if self._over.wait(_SETTLING_S):
            return
        while not self._over.wait(_INTERVAL_S):
            self._samples.append(_sample(self._nvml, self._card))


# What NVML tells at one moment, by the names of `GpuUse`; None for a fact that it does not tell.
_Sample: TypeAlias = "dict[str, float | None]"


def _name(nvml: ModuleType, card: Handle) -> str:
    return told(nvml.nvmlDeviceGetName, card) or ""


def _whole(nvml: ModuleType, card: Handle) -> Handle:
    """The card that a MIG instance is a part of, or the card itself."""
    instance = told(nvml.nvmlDeviceIsMigDeviceHandle, card)
    if not getattr(instance, "value", instance):
        return card
    return told(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, card) or card


def _sample(nvml: ModuleType, card: Handle) -> _Sample:
    whole = _whole(nvml, card)
    rates = told(nvml.nvmlDeviceGetUtilizationRates, card)
    memory = told(nvml.nvmlDeviceGetMemoryInfo, card)
    power = told(nvml.nvmlDeviceGetPowerUsage, whole)
    reasons = told(nvml.nvmlDeviceGetCurrentClocksEventReasons, whole)
    if reasons is None:  # the name before driver 535
        reasons = told(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, whole)
    return {
        "busy": rates.gpu if rates else None,
        "memory_busy": rates.memory if rates else None,
        "memory_bytes": memory.used if memory else None,
        "power_w": None if power is None else power / 1000,
        "clock_mhz": told(nvml.nvmlDeviceGetClockInfo, whole, nvml.NVML_CLOCK_SM),
        "reasons": reasons,
    }


def _summary(nvml: ModuleType, card: Handle, samples: Sequence[_Sample], seconds: float) -> GpuUse:
    known = {
        name: [value for sample in samples if (value := sample[name]) is not None]
        for name in samples[0]
    }
    means = {name: statistics.fmean(values) for name, values in known.items() if values}
    shares = {name: means[name] / 100 for name in ("busy", "memory_busy") if name in means}
    whole = _whole(nvml, card)
    limit = told(nvml.nvmlDeviceGetEnforcedPowerLimit, whole)
    clocks, used = known["clock_mhz"], known["memory_bytes"]
    return GpuUse(
        card=_name(nvml, card),
        seconds=seconds,
        samples=len(samples),
        **shares,
        memory_bytes=int(max(used)) if used else None,
        power_w=means.get("power_w"),
        power_limit_w=None if limit is None else limit / 1000,
        clock_mhz=statistics.median(clocks) if clocks else None,
        most_clock_mhz=told(nvml.nvmlDeviceGetMaxClockInfo, whole, nvml.NVML_CLOCK_SM),
        slowed=_slowed(nvml, list(map(int, known["reasons"]))),
        whole_card=whole is not card,
    )


def _slowed(nvml: ModuleType, reasons: Sequence[int]) -> dict[str, float]:
    """By reason, the share of samples with it, the largest first."""
    masks: dict[str, int] = {}
    for name, reason in _REASONS.items():
        masks[reason] = masks.get(reason, 0) | getattr(nvml, f"nvmlClocksEventReason{name}")
    shares = {
        why: sum(bool(each & mask) for each in reasons) / len(reasons)
        for why, mask in masks.items()
        if reasons
    }
    return {why: shares[why] for why in sorted(shares, key=lambda why: -shares[why]) if shares[why]}
