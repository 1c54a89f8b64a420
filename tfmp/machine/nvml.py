"""NVML, NVIDIA's library that asks its driver, opened for a block; and the cards in its numbers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias

# NVML's handle of a card or of a MIG instance.
Handle: TypeAlias = Any

_MIG_PREFIX = "MIG-"


class NoNvml(Exception):
    """NVML cannot be asked; the text says why, and `installed` whether there is a driver at all."""

    def __init__(self, reason: str, installed: bool) -> None:
        super().__init__(reason)
        self.installed = installed


@contextmanager
def opened_nvml() -> Iterator[ModuleType]:
    """The module `pynvml`, ready to be asked in this block.

    Raises:
        NoNvml: there is no driver, or it does not answer.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise NoNvml("NVIDIA's driver is not installed", installed=False) from error
        raise NoNvml(f"NVIDIA's driver does not answer: {error}", installed=True) from error
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def told(ask: Callable[..., Any], *arguments: object) -> Any:
    """An answer of NVML; None for a fact that this card, driver or container does not tell."""
    import pynvml

    try:
        return ask(*arguments)
    except pynvml.NVMLError:
        return None


def cards_of(nvml: ModuleType) -> list[Handle]:
    """The handles of all cards that answer, in the driver's order."""
    found = (told(nvml.nvmlDeviceGetHandleByIndex, i) for i in range(nvml.nvmlDeviceGetCount()))
    return [handle for handle in found if handle is not None]


def instances_of(nvml: ModuleType, card: Handle) -> list[Handle]:
    """The handles of a card's MIG instances."""
    most = told(nvml.nvmlDeviceGetMaxMigDeviceCount, card) or 0
    found = (told(nvml.nvmlDeviceGetMigDeviceHandleByIndex, card, i) for i in range(most))
    return [handle for handle in found if handle is not None]


def visible_cards(nvml: ModuleType, environment: Mapping[str, str]) -> list[Handle]:
    """The cards or MIG instances that CUDA gives a process, in CUDA's order.

    NVML itself knows nothing of CUDA_VISIBLE_DEVICES. As in CUDA, an entry that names no card ends
    the list; of a card that is split, CUDA takes one instance (CUDA C++ Programming Guide, "CUDA
    Environment Variables"; MIG User Guide, "Device Enumeration"). Numbers are the driver's, as with
    CUDA_DEVICE_ORDER=PCI_BUS_ID: cards of one model have the same order either way.
    """
    cards = cards_of(nvml)
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [_computing(nvml, card) for card in cards]
    found = []
    for entry in named.split(","):
        handle = _named(nvml, cards, entry.strip())
        if handle is None:
            break
        found.append(handle)
    return found


def _named(nvml: ModuleType, cards: list[Handle], entry: str) -> Handle | None:
    if entry.isdigit():
        return _computing(nvml, cards[int(entry)]) if int(entry) < len(cards) else None
    if entry.startswith(_MIG_PREFIX):
        return told(nvml.nvmlDeviceGetHandleByUUID, entry)
    # CUDA takes the beginning of a UUID, too, if only one card has it.
    fitting = [card for card in cards if entry and _uuid(nvml, card).startswith(entry)]
    return _computing(nvml, fitting[0]) if len(fitting) == 1 else None


def _uuid(nvml: ModuleType, card: Handle) -> str:
    return told(nvml.nvmlDeviceGetUUID, card) or ""


def _computing(nvml: ModuleType, card: Handle) -> Handle:
    """The card, or its first instance if it is split."""
    return next(iter(instances_of(nvml, card)), card)
