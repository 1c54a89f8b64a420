"""nvidia: what the driver's tool prints, on recorded machines, and what to make of its absence."""

import os
import subprocess

import nvidia_machines as machines
import pytest

from tfmp.machine import nvidia
from tfmp.machine.nvidia import Card, CardUser, NvidiaFacts, read_nvidia


def test_a_card_with_everything_said():
    facts = machines.H100.facts()
    assert (facts.driver, facts.cuda) == ("580.65.06", (13, 0))
    assert facts.cards == (Card(0, "NVIDIA H100 80GB HBM3", (9, 0), 81559, 61, False),)
    assert facts.users == ()


def test_a_card_that_cannot_be_split_is_neither_on_nor_off():
    assert machines.V100.facts().cards[0].mig is None


def test_instances_belong_to_their_card():
    first, second = machines.A100_MIG.facts().cards
    assert (first.mig, first.mig_profiles) == (True, ("3g.20gb", "1g.5gb"))
    assert (second.mig, second.mig_profiles) == (False, ())


def test_other_users_by_name_without_folders():
    assert machines.GTX_1660.facts().users == (
        CardUser(1893, "python3", 3870),
        CardUser(2204, "game.exe", None),
    )


def test_an_old_driver_is_known_by_its_banner():
    facts = machines.OLD_DRIVER.facts()
    assert (facts.driver, facts.cuda, facts.cards) == ("440.33.01", (10, 2), ())


def test_a_machine_without_the_tool_has_no_facts(monkeypatch):
    monkeypatch.setattr(nvidia.shutil, "which", lambda name: None)
    assert read_nvidia() == NvidiaFacts()


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a script in the place of nvidia-smi."""

    def write(script):
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return write


def test_a_driver_that_does_not_answer_says_why(tool):
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    tool(f'echo "{said}"; echo more; exit 9')
    facts = read_nvidia()
    assert facts == NvidiaFacts(error=f"nvidia-smi: {said}")


def test_the_queries_are_those_that_are_parsed(tool):
    recorded = machines.T4
    tool(
        'case "$1" in\n'
        f"--query-gpu=*) echo '{recorded.cards.strip()}';;\n"
        "--query-compute-apps=*) exit 2;;\n"
        f"-L) echo '{recorded.listing.strip()}';;\n"
        f"*) echo '{recorded.banner}';;\n"
        "esac"
    )
    assert read_nvidia() == recorded.facts()


def test_this_process_is_no_other_user(tool):
    users = f"{os.getpid()}, python, 100\n1, /bin/train, 200"
    tool(
        'case "$1" in\n'
        f"--query-gpu=*) echo '{machines.T4.cards.strip()}';;\n"
        f"--query-compute-apps=*) printf '{users}';;\n"
        "esac"
    )
    assert read_nvidia().users == (CardUser(1, "train", 200),)


def test_a_tool_that_hangs_is_given_up(monkeypatch):
    def hang(*arguments, **options):
        raise subprocess.TimeoutExpired("nvidia-smi", 20)

    monkeypatch.setattr(nvidia.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(nvidia.subprocess, "run", hang)
    assert "timed out after 20 seconds" in read_nvidia().error
