"""NVIDIA's cards as their driver sees them: memory, MIG and the processes that use them.

`nvidia-smi` comes with the driver and asks it directly, so that its answers need no framework.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

QUERY_CARDS = (
    "--query-gpu=index,name,driver_version,compute_cap,memory.total,memory.used,mig.mode.current",
    "--format=csv,noheader,nounits",
)
QUERY_USERS = (
    "--query-compute-apps=pid,process_name,used_memory",
    "--format=csv,noheader,nounits",
)
LIST = ("-L",)

_PATIENCE_SECONDS = 20
_PCI = Path("/sys/bus/pci/devices")
_PCI_NVIDIA = "0x10de"
_PCI_DISPLAYS = ("0x0300", "0x0302")  # VGA and 3D controllers; others of its devices are sound

_MIG_LINE = re.compile(r"^\s*MIG\s+(\S+)\s+Device\s+\d+:")
_CARD_LINE = re.compile(r"^GPU (\d+):")


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
    """

    index: int
    name: str
    compute_capability: tuple[int, int] | None
    memory_mib: int | None = None
    used_mib: int | None = None
    mig: bool | None = None
    mig_profiles: tuple[str, ...] = ()


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
        error: the reason why the driver could not be asked although its tool is installed.
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
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return NvidiaFacts()
    texts: list[str] = []
    for arguments in ((), QUERY_CARDS, QUERY_USERS, LIST):
        try:
            done = subprocess.run(
                [tool, *arguments], capture_output=True, text=True, timeout=_PATIENCE_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return NvidiaFacts(error=f"nvidia-smi: {error}")
        if done.returncode and not texts:
            said = (done.stdout or done.stderr).strip().splitlines() or ["no reason given"]
            return NvidiaFacts(error=f"nvidia-smi: {said[0]}")
        texts.append(done.stdout if done.returncode == 0 else "")
    facts = parse_nvidia(*texts)
    return replace(facts, users=tuple(user for user in facts.users if user.pid != os.getpid()))


def parse_nvidia(banner: str, cards: str, users: str = "", listing: str = "") -> NvidiaFacts:
    """Reads the output of `nvidia-smi`: without options, then for each of the three queries."""
    rows = [row for row in map(_cells, cards.splitlines()) if len(row) == 7]
    instances = _instances(listing)
    found = tuple(_card(row, instances.get(int(row[0]), ())) for row in rows)
    cuda = re.search(r"CUDA Version:\s*(\d+)\.(\d+)", banner)
    driver = re.search(r"Driver Version:\s*([\d.]+)", banner)
    return NvidiaFacts(
        driver=rows[0][2] if rows else driver[1] if driver else None,
        cuda=(int(cuda[1]), int(cuda[2])) if cuda else None,
        cards=found,
        users=tuple(_user(row) for row in map(_cells, users.splitlines()) if len(row) >= 3),
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")] if line.strip() else []


def _card(row: Sequence[str], profiles: tuple[str, ...]) -> Card:
    index, name, _, capability, total, used, mig = row
    match = re.fullmatch(r"(\d+)\.(\d+)", capability)
    return Card(
        index=int(index),
        name=name,
        compute_capability=(int(match[1]), int(match[2])) if match else None,
        memory_mib=_number(total),
        used_mib=_number(used),
        mig={"Enabled": True, "Disabled": False}.get(mig),
        mig_profiles=profiles,
    )


def _user(row: Sequence[str]) -> CardUser:
    # A program's name may have commas in it: the number is first, the memory last.
    name = ", ".join(row[1:-1]).replace("\\", "/").rsplit("/", 1)[-1]
    return CardUser(_number(row[0]) or 0, name, _number(row[-1]))


def _number(text: str) -> int | None:
    """None for "[N/A]", "[Not Supported]" and "[Insufficient Permissions]"."""
    return int(text) if text.isdigit() else None


def _instances(listing: str) -> dict[int, tuple[str, ...]]:
    """MIG instances by index of the card."""
    found: dict[int, tuple[str, ...]] = {}
    card = 0
    for line in listing.splitlines():
        if match := _CARD_LINE.match(line):
            card = int(match[1])
        elif match := _MIG_LINE.match(line):
            found[card] = (*found.get(card, ()), match[1])
    return found
