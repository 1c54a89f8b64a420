"""Ctrl-C in `tfmp-convert`: one line and status 130, no process and no half-written file left."""

import os
import signal
import sys
import threading

import ctrl_c
import keras_models
import numpy as np
import pytest
from click.testing import CliRunner

from tfmp.converters.commands.cli import main

# Long enough for a busy machine; nothing waits for it where all is well.
PATIENCE = 240

DATA = """
import sys
import threading

import numpy as np


def endless():
    yield np.zeros((4, 6), "float32")
    print("in the middle", file=sys.stderr, flush=True)
    threading.Event().wait()


def stops():
    yield np.zeros((4, 6), "float32")
    raise KeyboardInterrupt
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a model and samples that never end."""
    monkeypatch.chdir(tmp_path)
    keras_models.dense().save("dense.keras")
    (tmp_path / "samples.py").write_text(DATA)
    return tmp_path


@pytest.fixture
def validate(folder):
    """Starts `tfmp-convert validate` on samples without end, as the leader of its processes."""
    assert CliRunner().invoke(main, ["tflite", "dense.keras"]).exit_code == 0
    arguments = "validate dense.keras dense.tflite --data samples:endless --report drift.html"
    program = os.path.join(os.path.dirname(sys.executable), "tfmp-convert")
    with ctrl_c.leading(program, *arguments.split()) as process:
        yield process


@pytest.mark.slow
def test_ctrl_c_while_comparing(folder, validate):
    """LiteRT runs in a process of its own, which has to end too."""
    stuck = threading.Timer(PATIENCE, os.killpg, (validate.pid, signal.SIGKILL))
    stuck.start()
    assert validate.stderr.readline() == "in the middle\n"
    stuck.cancel()
    os.killpg(validate.pid, signal.SIGINT)  # as a terminal does: all of them are told
    # Both streams end when the last process that could write to them has ended.
    out, err = validate.communicate(timeout=PATIENCE)
    assert (validate.returncode, out, err) == (130, "", "Interrupted.\n")
    assert sorted(path.name for path in folder.iterdir() if path.suffix) == [
        "dense.keras", "dense.tflite", "samples.py",
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["onnx", "inspect"])
def test_ctrl_c_is_no_fail(folder, command):
    result = CliRunner().invoke(main, [command, "dense.keras", "--data", "samples:stops"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted.\n")


def test_ctrl_c_while_a_report_is_written_leaves_the_one_before(folder, monkeypatch):
    np.save("x.npy", np.zeros((4, 6), np.float32))
    (folder / "drift.html").write_text("the one before")
    arguments = ["onnx", "dense.keras", "--data", "x.npy", "--report", "drift.html", "--force"]

    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tfmp.converters.report.contents.to_html", stop)
    assert CliRunner().invoke(main, arguments).exit_code == 130
    assert (folder / "drift.html").read_text() == "the one before"
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
