"""Fixtures shared by all tests."""

import gc
import os
import runpy
import sys
import time
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

import pytest

# Before any test imports TensorFlow: its start-up chatter is no part of a result.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in `tfmp-convert`: without oneDNN some models of the sweep have no kernel on some processors.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Frameworks start in half the time, here and in all processes that tests start.
LEAN = str(Path(__file__).parent / "support" / "lean")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [LEAN, os.environ.get("PYTHONPATH")]))
runpy.run_path(f"{LEAN}/sitecustomize.py")


def keep_to_own_cores() -> None:
    """Gives each worker of xdist its share of the cores, before a framework counts them.

    NumPy, TensorFlow and the runtimes otherwise make threads for all cores in every worker: their
    waiting for each other takes a quarter of all computing time.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))
    if workers and sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        os.sched_setaffinity(0, cores[worker % len(cores) :: workers])


keep_to_own_cores()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help="list CPU seconds of all rooms of tests")


def pytest_configure(config: pytest.Config) -> None:
    """Counts CPU seconds; a room past its share is named at the end."""
    from cpu_times import CpuTimes

    config.pluginmanager.register(CpuTimes(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that run many others in a process of their own begin first: no worker waits for them.

    They stand beside this file.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Slow tests whose turn comes too late are skipped, where the time of all of them is limited.

    On a machine of unknown speed a run that is cut off says nothing of what it had found.
    """
    end = os.environ.get("TFMP_SLOW_UNTIL")
    if end and item.get_closest_marker("slow") and time.time() > float(end):
        pytest.skip("the time for slow tests is over: TFMP_SLOW_UNTIL")


def keep_what_is_there() -> None:
    """Later collections of garbage need not look at the objects of now.

    `keras.backend.clear_session` and others collect, half a second each without this.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    """What the frameworks made when they were imported stays."""
    keep_what_is_there()
    gc.set_threshold(100_000, 20, 50)


finished = count(1)


def pytest_runtest_logfinish() -> None:
    """So does what they made in the tests: graphs, kernels, modules imported late."""
    if next(finished) % 50 == 0:
        keep_what_is_there()


@pytest.fixture(autouse=True)
def forget_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules that a test wrote are not found by another test that writes one of that name."""
    last = next(reversed(sys.modules))
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name in list(takewhile(last.__ne__, reversed(sys.modules))):
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
            del sys.modules[name]


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of real trained models named by TFMP_ZOO."""
    folder = os.environ.get("TFMP_ZOO")
    if not folder:
        pytest.skip("TFMP_ZOO is not set: it names the folder of trained models")
    return Path(folder)
