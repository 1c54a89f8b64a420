"""Status 1 only ever means FAIL: whatever happens to a command, its files, and its readers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ctrl_c
import pytest

# Commands that end in every way there is, without any framework.
SCRIPT = """
import os, signal, sys, time
import click
from tfmp.converters.commands import guard
from tfmp.converters.shared.errors import InputError

@click.group(cls=guard.GuardedGroup)
def main(): pass

@main.command()
@click.argument("number", type=int)
def leave(number): sys.exit(number)

@main.command()
@click.argument("name")
def die(name): os.kill(os.getpid(), getattr(signal, name))

@main.command()
@click.argument("code")
def fail(code): eval(code)

def throw(error): raise error

@main.command()
@click.option("--max-memory", callback=guard.set_limit)
def grow(max_memory):
    guard._held = [bytearray(os.urandom(1 << 20)) * 50 for _ in range(8)]
    time.sleep(100)

@main.command()
def wait():
    print("ready", flush=True)
    time.sleep(100)

@main.command()
def tell(): click.echo("result")

main()
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", SCRIPT, *words]


def ended(*words: str) -> tuple[int, str]:
    """The exit status of a command, and its stderr."""
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize("status", [0, 3])
def test_a_verdict_is_passed_on(status: int):
    assert ended("leave", str(status)) == (status, "")


def test_a_crash_is_a_sentence_and_an_order_to_end_is_none():
    status, told = ended("die", "SIGSEGV")
    assert status == 2
    assert told.startswith("Error: the command was ended by SIGSEGV, ")
    assert "may be damaged: check them, or make them again" in told
    assert ended("die", "SIGTERM") == (143, "Terminated.\n")


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("throw(InputError('no model. Name one.'))", 2, "Error: no model. Name one.\n"),
        ("open('/nonexistent/x')", 2, "Error: /nonexistent/x: the system refuses this (No such"),
        ("throw(OSError(28, 'No space left on device'))", 2, "Free space there, or choose"),
        (
            "throw(RuntimeError('t/part-0; No space left on device [Op:SaveV2]'))",
            2,
            "Free space there",
        ),
        ("throw(OSError('147456 requested and 23336 written'))", 2, "Free space there, or choose"),
        ("throw(MemoryError())", 2, "Error: there is not enough memory for this."),
        ("throw(RecursionError())", 2, "nested too deeply to be read"),
        ("throw(click.Abort())", 130, "Interrupted.\n"),
        ("throw(click.FileError('x'))", 2, "Could not open file 'x'"),
        ("sys.exit('a text')", 70, "a text\n"),
        ("throw(KeyError('lost'))", 70, "KeyError: 'lost'\nThis is a defect of tfmp-convert: "),
        ("throw(InputError('no \\x1b]0;evil\\x07.keras'))", 2, r"Error: no \x1b]0;evil\x07.keras"),
    ],
)
def test_the_status_of_every_mistake(code: str, status: int, told: str):
    received, text = ended("fail", code)
    assert received == status
    assert told in text
    assert "\x1b" not in text


def test_a_command_that_takes_too_much_memory_is_stopped():
    status, told = ended("grow", "--max-memory", "300M")
    assert status == 2
    assert "MiB of memory, more than its limit, and was stopped" in told
    assert "allow more with --max-memory" in told


@pytest.mark.parametrize("size", ["", "-3G", "8GX"])
def test_a_size_that_is_none(size: str):
    status, told = ended("grow", "--max-memory", size)
    assert status == 2
    assert "is no size of memory. Write a number with K, M, G or T, as in 8G" in told


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[str]]:
    """A command that has begun and does not end, as the leader of its processes."""
    with ctrl_c.leading(*command("wait")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.mark.parametrize("everybody", [False, True])
def test_ctrl_c_is_heard_once(everybody: bool, waiting: subprocess.Popen[str]):
    """A terminal sends it to all processes of a command, a script to the first alone."""
    (os.killpg if everybody else os.kill)(waiting.pid, signal.SIGINT)
    _, told = waiting.communicate(timeout=60)
    assert (waiting.returncode, told.strip()) == (130, "Interrupted.")


def test_nothing_goes_on_without_the_watching_process(waiting: subprocess.Popen[str]):
    os.kill(waiting.pid, signal.SIGKILL)
    assert waiting.communicate(timeout=60) == ("", "")  # at the end of the last that could write


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize(
    ("words", "redirected", "status"),
    [
        ("tell", "> /dev/full", 2),
        ("tell", ">&-", 0),
        ("--help", "> /dev/full", 2),
        ("leave 3", "> /dev/full 2> /dev/full", 3),
        ("no-such-command", "2>&-", 2),
        ("die SIGSEGV", "2>&-", 2),
    ],
)
def test_streams_that_are_full_or_closed(words: str, redirected: str, status: int):
    script = f'"$0" -c "$1" {words} {redirected}'
    done = subprocess.run(["sh", "-c", script, sys.executable, SCRIPT], timeout=60)
    assert done.returncode == status


HOSTILE = Path(__file__).parents[2] / "support" / "hostile_files.py"


@pytest.mark.slow
def test_damaged_files_are_opened_or_refused(tmp_path: Path):
    """`python tests/support/hostile_files.py` tries 20,000."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        HOSTILE,
        "--count",
        "250",
        "--keep",
        tmp_path / "bad",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    kept = "\n".join(path.read_text() for path in sorted((tmp_path / "bad").glob("*.txt")))
    assert done.returncode == 0, f"{done.stdout}\n{kept}\n{done.stderr[-2000:]}"
    assert "| all | 249 |" in done.stdout
