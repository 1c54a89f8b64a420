"""CPU seconds of the tests by room, against the share of each room (`tests/times.toml`).

A plug-in that `conftest.py` registers. Processes that a test starts count once they have ended.
Other work on the machine changes CPU seconds little; they are shown, and no test fails: rooms
past their share always, all rooms and the files that take most with `pytest --times`.
"""

import os
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
_MOST_FILES = 30


def budget(kind: str) -> dict[str, float]:
    """CPU seconds of "quick" or "slow" tests by room: the beginning of their files' paths."""
    table = tomllib.loads((TESTS / "times.toml").read_text(encoding="utf-8"))
    return {str(room): float(seconds) for room, seconds in table[kind].items()}


def room_of(file: str, rooms: Mapping[str, float]) -> str:
    """The room that a file of tests counts for: the longest that its path begins with."""
    found = [room for room in rooms if file == f"{room}.py" or file.startswith((f"{room}/", room))]
    return max(found, key=len, default="")


def by_room(files: Mapping[str, float], rooms: Mapping[str, float]) -> Counter[str]:
    """CPU seconds by room."""
    found: Counter[str] = Counter()
    for file, seconds in files.items():
        found[room_of(file, rooms)] += seconds
    return found


class CpuTimes:
    """Adds up CPU seconds by file, over all workers of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._files: dict[str, Counter[str]] = {"quick": Counter(), "slow": Counter()}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Counts what one test takes, with its fixtures."""
        before = os.times()
        try:
            return (yield)
        finally:
            spent = sum(os.times()[:4]) - sum(before[:4])
            kind = "slow" if item.get_closest_marker("slow") else "quick"
            self._files[kind][item.path.relative_to(TESTS).as_posix()] += spent

    def pytest_sessionfinish(self) -> None:
        """Hands the sums of a worker to the process that reports."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["cpu_times"] = {kind: dict(files) for kind, files in self._files.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes the sums of a worker."""
        for kind, files in getattr(node, "workeroutput", {}).get("cpu_times", {}).items():
            self._files[kind].update(files)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints rooms and their shares."""
        every = self._config.getoption("--times")
        for kind, files in self._files.items():
            rooms = budget(kind)
            rows = by_room(files, rooms)
            over = [room for room in rows if rows[room] > rooms.get(room, 0.0)]
            shown = sorted(rows if every else over, key=lambda room: -rows[room])
            if not shown:
                continue
            terminalreporter.section(f"CPU seconds of {kind} tests: {rows.total():,.0f}")
            for room in shown:
                past = "  past its share" if room in over else ""
                terminalreporter.write_line(
                    f"{rows[room]:8,.0f} of {rooms.get(room, 0.0):6,.0f}  {room or 'others'}{past}"
                )
            for file, seconds in files.most_common(_MOST_FILES if every else 0):
                terminalreporter.write_line(f"{seconds:8,.0f}  {file}")
