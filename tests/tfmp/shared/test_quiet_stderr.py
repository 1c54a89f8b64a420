"""stderr: what loading prints is held back, and shown where loading fails."""

import os
import subprocess
import sys

import pytest

from tfmp.shared.quiet_stderr import held_back


def noise(error: BaseException | None = None) -> None:
    """As C++ does it: past Python's sys.stderr."""
    os.write(2, b"oneDNN custom operations are on\n")
    if error:
        raise error


def test_noise_is_held_back_and_what_comes_after_is_not(capfd):
    with held_back():
        noise()
    os.write(2, b"a warning\n")
    assert capfd.readouterr().err == "a warning\n"


def test_it_is_shown_where_loading_fails(capfd):
    with pytest.raises(ImportError), held_back():
        noise(ImportError())
    assert capfd.readouterr().err == "oneDNN custom operations are on\n"


def test_ctrl_c_is_no_failure(capfd):
    with pytest.raises(KeyboardInterrupt), held_back():
        noise(KeyboardInterrupt())
    assert capfd.readouterr().err == ""


def test_a_command_starts_without_a_word_of_the_frameworks():
    environment = {name: v for name, v in os.environ.items() if not name.startswith("TF_CPP")}
    command = [sys.executable, "-m", "tfmp.commands.cli", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("status ")
