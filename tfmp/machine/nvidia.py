"""NVIDIA's cards as their driver sees them: memory, MIG and the processes that use them.

NVML comes with the driver and asks it directly, so that its answers need no framework.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from tfmp.machine.nvml import Handle, NoNvml, cards_of, instances_of, opened_nvml, told

_PCI = Path("/sys/bus/pci/devices")
_PCI_NVIDIA = "0x10de"
_PCI_DISPLAYS = ("0x0300", "0x0302")  # VGA and 3D controllers; others of its devices are sound


@dataclass(frozen=True)
class Card:
    """One card as the driver sees it.

    Attributes:
        index: the driver's number.
        name: the driver's name.
        compute_capability: (major, minor); None from a driver too old to say.
        memory_mib: all of its memory; None if the driver does not say.
        used_mib: the memory that is taken by all processes; None if the driver does not say.
        mig: whether the card is split into instances; None if it cannot be split.
        mig_profiles: the instances that exist, such as "1g.5gb".
        mig_uuids: their names for CUDA_VISIBLE_DEVICES, such as "MIG-c7384736-...".
        uuid: the card's name for CUDA_VISIBLE_DEVICES, such as "GPU-8f6d5c4a-...".
    """

    index: int
    name: str
    compute_capability: tuple[int, int] | None
    memory_mib: int | None = None
    used_mib: int | None = None
    mig: bool | None = None
    mig_profiles: tuple[str, ...] = ()
    mig_uuids: tuple[str, ...] = ()
    uuid: str = ""


@dataclass(frozen=True)
class CardUser:
    """A process that computes on a card.

    Attributes:
        pid: number of the process, in the driver's own view of the system.
        name: the program, without its folders.
        used_mib: the card's memory that it takes; None if the driver does not say.
    """

    pid: int
    name: str
    used_mib: int | None


@dataclass(frozen=True)
class NvidiaFacts:
    """All answers of the driver.

    Attributes:
        driver: version of the driver; None without a driver.
        cuda: the newest CUDA that this driver runs, (major, minor).
        cards: the cards in the driver's order.
        users: other processes that compute on any card.
        error: the reason why the driver could not be asked although it is installed.
        built_in: number of NVIDIA's cards in the computer, driver or not, as Linux counts them.
    """

    driver: str | None = None
    cuda: tuple[int, int] | None = None
    cards: tuple[Card, ...] = ()
    users: tuple[CardUser, ...] = ()
    error: str = ""
    built_in: int = 0


def read_nvidia() -> NvidiaFacts:
    """Asks the driver, and counts the cards that are built in."""
    return replace(_ask_driver(), built_in=count_built_in())


def count_built_in(devices: Path = _PCI) -> int:
    """Number of NVIDIA's cards on the PCI bus; 0 if the bus cannot be read.

    Args:
        devices: the folder in which Linux has a folder for each device.
    """

    def fact(device: Path, name: str) -> str:
        try:
            return (device / name).read_text(encoding="ascii").strip()
        except OSError:
            return ""

    return sum(
        fact(device, "vendor") == _PCI_NVIDIA and fact(device, "class").startswith(_PCI_DISPLAYS)
        for device in devices.glob("*")
    )


def _ask_driver() -> NvidiaFacts:
    try:
        with opened_nvml() as nvml:
            cuda = told(nvml.nvmlSystemGetCudaDriverVersion)
            cards = cards_of(nvml)
            return NvidiaFacts(
                driver=told(nvml.nvmlSystemGetDriverVersion),
                cuda=(cuda // 1000, cuda % 1000 // 10) if cuda else None,  # 12040 is 12.4
                cards=tuple(_card(nvml, index, card) for index, card in enumerate(cards)),
                users=tuple(user for card in cards for user in _users(nvml, card)),
            )
    except NoNvml as error:
        return NvidiaFacts(error=str(error) if error.installed else "")


def _card(nvml: ModuleType, index: int, card: Handle) -> Card:
    memory = told(nvml.nvmlDeviceGetMemoryInfo, card)
    mig = told(nvml.nvmlDeviceGetMigMode, card)
    instances = instances_of(nvml, card) if mig else []
    return Card(
        index=index,
        name=told(nvml.nvmlDeviceGetName, card) or "unknown",
        compute_capability=told(nvml.nvmlDeviceGetCudaComputeCapability, card),
        memory_mib=memory.total // 2**20 if memory else None,
        used_mib=memory.used // 2**20 if memory else None,
        mig=None if mig is None else mig[0] == nvml.NVML_DEVICE_MIG_ENABLE,
        mig_profiles=tuple(_profile(nvml, instance) for instance in instances),
        mig_uuids=tuple(told(nvml.nvmlDeviceGetUUID, instance) or "" for instance in instances),
        uuid=told(nvml.nvmlDeviceGetUUID, card) or "",
    )


def _profile(nvml: ModuleType, instance: Handle) -> str:
    """The last word of an instance's name, as in "NVIDIA A100-SXM4-40GB MIG 1g.5gb"."""
    return (told(nvml.nvmlDeviceGetName, instance) or "unknown").rpartition(" ")[2]


def _users(nvml: ModuleType, card: Handle) -> Iterator[CardUser]:
    for process in told(nvml.nvmlDeviceGetComputeRunningProcesses, card) or ():
        if process.pid != os.getpid():
            # A process of another container has no name here.
            path = told(nvml.nvmlSystemGetProcessName, process.pid) or "unknown"
            used = process.usedGpuMemory
            name = path.replace("\\", "/").rsplit("/", 1)[-1]
            yield CardUser(process.pid, name, None if used is None else used // 2**20)
