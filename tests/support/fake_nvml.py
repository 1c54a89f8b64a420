"""NVML's functions on machines that are not here, with the signatures of `pynvml`.

The constants and errors are pynvml's own: only the calls into the driver are replaced. What an
attribute holds is answered; `Fails` in its place raises the error that the real function raises.
"""

import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

MIB = 2**20


@dataclass(frozen=True)
class Fails:
    """A question that fails with this error."""

    code: int


NOT_SUPPORTED = Fails(pynvml.NVML_ERROR_NOT_SUPPORTED)
NO_PERMISSION = Fails(pynvml.NVML_ERROR_NO_PERMISSION)
FUNCTION_NOT_FOUND = Fails(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
NOT_FOUND = Fails(pynvml.NVML_ERROR_NOT_FOUND)


@dataclass
class FakeCard:
    """A card, or an instance of one; memory in MiB, power in watts, clocks in MHz."""

    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-9c9c"
    capability: Any = (9, 0)
    total: int = 81559
    used: Any = 61
    mig: Any = NOT_SUPPORTED
    instances: "tuple[FakeCard, ...]" = ()
    users: Any = ()
    busy: Any = 0
    memory_busy: int = 0
    power: Any = NOT_SUPPORTED
    power_limit: Any = NOT_SUPPORTED
    clock: Any = NOT_SUPPORTED
    most_clock: Any = NOT_SUPPORTED
    reasons: Any = 0
    old_reasons: Any = 0
    parent: "FakeCard | None" = None

    def __post_init__(self) -> None:
        for instance in self.instances:
            instance.parent = self


def _answer(value: Any) -> Any:
    if isinstance(value, Fails):
        raise pynvml.NVMLError(value.code)
    return value


@dataclass
class FakeNvml:
    """A driver; `failure` is raised when it is opened."""

    driver: str = "550.54.15"
    cuda: Any = 12040
    cards: tuple[FakeCard, ...] = ()
    programs: Any = None
    failure: Any = None
    opened: int = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FakeNvml":
        """Puts these functions in the place of pynvml's."""
        for name, function in inspect.getmembers(self, inspect.ismethod):
            if name.startswith("nvml"):
                monkeypatch.setattr(pynvml, name, function)
        return self

    def nvmlInit(self) -> None:
        _answer(self.failure)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return _answer(self.driver)

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return _answer(self.cuda)

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        return _answer((self.programs or {}).get(pid, NOT_FOUND))

    def nvmlDeviceGetCount(self) -> int:
        assert self.opened
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeCard:
        every = [one for card in self.cards for one in (card, *card.instances)]
        return _answer(next((one for one in every if one.uuid == uuid), NOT_FOUND))

    def nvmlDeviceGetName(self, handle: FakeCard) -> str:
        return _answer(handle.name)

    def nvmlDeviceGetUUID(self, handle: FakeCard) -> str:
        return _answer(handle.uuid)

    def nvmlDeviceGetCudaComputeCapability(self, handle: FakeCard) -> tuple[int, int]:
        return _answer(handle.capability)

    def nvmlDeviceGetMemoryInfo(self, handle: FakeCard, version: Any = None) -> Any:
        used = _answer(handle.used) * MIB
        total = handle.total * MIB
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetMigMode(self, device: FakeCard) -> list[int]:
        return [int(_answer(device.mig)), int(device.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: FakeCard) -> int:
        return 7 if device.mig is True else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: FakeCard, index: int) -> FakeCard:
        return _answer(device.instances[index] if index < len(device.instances) else NOT_FOUND)

    def nvmlDeviceIsMigDeviceHandle(self, device: FakeCard) -> Any:
        return pynvml.c_uint(device.parent is not None)  # as pynvml returns it

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, migDevice: FakeCard) -> FakeCard:
        assert migDevice.parent is not None
        return migDevice.parent

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeCard) -> list[Any]:
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=None if used is None else used * MIB)
            for pid, used in _answer(handle.users)
        ]

    def nvmlDeviceGetUtilizationRates(self, handle: FakeCard) -> Any:
        return SimpleNamespace(gpu=_answer(handle.busy), memory=handle.memory_busy)

    def nvmlDeviceGetPowerUsage(self, handle: FakeCard) -> int:
        return _answer(handle.power) * 1000

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeCard) -> int:
        return _answer(handle.power_limit) * 1000

    def nvmlDeviceGetClockInfo(self, handle: FakeCard, type: int) -> int:
        assert type == pynvml.NVML_CLOCK_SM
        return _answer(handle.clock)

    def nvmlDeviceGetMaxClockInfo(self, handle: FakeCard, type: int) -> int:
        assert type == pynvml.NVML_CLOCK_SM
        return _answer(handle.most_clock)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: FakeCard) -> int:
        return _answer(handle.reasons)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: FakeCard) -> int:
        return _answer(handle.old_reasons)
