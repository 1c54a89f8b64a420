"""Keras is loaded for commands, with TensorFlow where there is one."""

import json
import os
import subprocess
import sys

import keras  # noqa: F401  # before TensorFlow is hidden, which is its backend here
import pytest

from tfmp.commands.session import import_keras


def test_commands_start_without_tensorflow(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # as if it were not installed
    import_keras()


def test_a_backend_that_cannot_be_loaded_is_one_message_and_status_2():
    command = [sys.executable, "-m", "tfmp.commands.cli", "doctor"]
    environment = {**os.environ, "KERAS_BACKEND": "nonsense"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Keras and its backend (nonsense) cannot be loaded: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_output_that_a_full_disk_does_not_take_is_one_message_and_status_2(tmp_path):
    command = [
        sys.executable,
        "-m",
        "tfmp.commands.cli",
        "compare",
        "--init",
        str(tmp_path / "t.py"),
    ]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "Error: stdout or a file without a name: the system refuses this (No space left on "
        "device). Free space there, or choose another place; for temporary files, name one in the "
        "variable TMPDIR.\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="closes streams as a POSIX shell does")
def test_a_command_whose_stderr_is_closed_does_its_work():
    command = 'exec "$0" -m tfmp.commands.cli doctor --json 2>&-'
    ended = subprocess.run(
        ["sh", "-c", command, sys.executable], stdout=subprocess.PIPE, text=True, check=False
    )
    assert "diagnoses" in json.loads(ended.stdout)
    assert ended.returncode in (0, 1)
