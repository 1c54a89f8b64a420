"""Processes: messages that end with one of the two, and the card that each of them gets."""

import multiprocessing
import os

import pytest
from fake_nvml import FakeNvml
from nvidia_machines import A100_MIG, NONE

from tfmp.colocation import processes
from tfmp.colocation.job import Job
from tfmp.colocation.processes import check_job_devices
from tfmp.colocation.run import _of_mode, colocate
from tfmp.machine import Device


class Ended(BaseException):
    """In place of the end of this process."""


@pytest.mark.parametrize("use", [lambda pipe: pipe.send("step"), lambda pipe: pipe.recv()])
def test_a_child_that_nobody_listens_to_ends_without_a_traceback(monkeypatch, use):
    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    with pytest.raises(Ended), processes.ending_with_parent():
        use(theirs)


@pytest.mark.parametrize(
    ("code", "limit", "end"),
    [
        (-6, 20 * 2**20, "by SIGABRT; it may use 20 MiB: pass a higher memory_limit"),
        (-6, None, "by SIGABRT"),
        (3, 20 * 2**20, "around its own work"),
    ],
)
def test_a_process_that_is_aborted_is_told_with_its_limit(code, limit, end):
    assert processes._why_it_ended(code, limit).endswith(end)


GIB = 2**30


def job(device):
    return Job(dict, (), name="a", device=device)


@pytest.fixture
def two_cards(monkeypatch):
    A100_MIG.install(monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def variables(limit, device, monkeypatch, mps=False):
    """What a child would find in its environment."""
    monkeypatch.setattr("tfmp.machine.mps.mps_runs", lambda: mps)
    monkeypatch.setattr("tfmp.machine.mps_runs", lambda: mps)
    return processes._variables(limit, device)


@pytest.mark.parametrize("device", ["MIG-bbbb", "GPU-2222", "1"])
def test_cards_and_instances_that_are_there(two_cards, device):
    check_job_devices([job(device), job("")], "processes")
    check_job_devices([job(device)], "auto")


@pytest.mark.parametrize("device", ["0", "GPU-1111", "MIG-none", "7"])
def test_others_are_refused_with_those_that_are_there(two_cards, device):
    # Nothing can compute on the whole of card 0: it is split.
    text = f"'a' names the device '{device}', .* it knows MIG-aaaa, MIG-bbbb, 1 and GPU-2222"
    with pytest.raises(ValueError, match=text):
        check_job_devices([job(device)], "processes")


def test_a_machine_without_a_card(monkeypatch):
    NONE.install(monkeypatch)
    with pytest.raises(ValueError, match=r"which NVIDIA's driver does not know: there is no card"):
        colocate([job("0")])
    with pytest.raises(ValueError, match=r"mode 'threads' has one for all\. Choose"):
        colocate([job("0")], "threads")


def test_a_process_sees_the_card_of_its_job(monkeypatch):
    found = variables(None, "MIG-bbbb", monkeypatch)
    assert found["CUDA_VISIBLE_DEVICES"] == "MIG-bbbb"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_VISIBLE_DEVICES" not in variables(None, "", monkeypatch)


def test_a_limit_is_a_share_of_the_job_s_own_card(two_cards, monkeypatch):
    found = variables(10 * GIB, "GPU-2222", monkeypatch)
    assert found["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.2500"
    found = variables(2432 * 2**20, "MIG-bbbb", monkeypatch)
    assert found["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.5000"


@pytest.mark.parametrize(
    ("mps", "limit", "expected"), [(True, GIB, "0=1024M"), (False, GIB, None), (True, None, None)]
)
def test_under_mps_the_service_holds_a_process_to_its_limit(monkeypatch, mps, limit, expected):
    FakeNvml().install(monkeypatch)
    found = variables(limit, "", monkeypatch, mps)
    assert found.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == expected


@pytest.mark.parametrize(
    ("mode", "mps", "cards", "told"),
    [
        ("processes", False, ("", ""), True),
        ("processes", True, ("", ""), False),
        ("processes", False, ("0", "MIG-1"), False),
        ("threads", False, ("", ""), False),
    ],
)
def test_processes_that_take_turns_on_a_card_are_told_of_mps(mode, mps, cards, told, monkeypatch):
    monkeypatch.setattr("tfmp.colocation.run.mps_runs", lambda: mps)
    notes = list(_of_mode(mode, tuple(map(job, cards)), Device("gpu", "Tesla T4", (7, 5))))
    assert [note.endswith("nvidia-cuda-mps-control -d") for note in notes] == [True] * told
