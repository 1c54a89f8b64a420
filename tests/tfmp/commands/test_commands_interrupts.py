"""Ctrl-C and kills: one line and status 130, no process left behind, no file half written."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

import ctrl_c
import pytest
from click.testing import CliRunner

from tfmp.commands.cli import main

# Long enough for a busy machine; nothing waits for it where all is well.
PATIENCE = 240

# Where the tests are killed themselves, nobody else would end the command.
JOBS = """
import multiprocessing
import os

import keras
import numpy as np
import tfmp

X = np.ones((8, 4), "float32")
TESTS = os.getppid()


class Announcing(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            os.write(2, b"in the middle\\n")  # at once: jobs may write beside one another
        if multiprocessing.parent_process() is None and os.getppid() != TESTS:
            os._exit(1)


def announcing():
    return [Announcing()]


def build():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


def endless():
    def job(name):
        return tfmp.Job(
            build, (X, X[:, :2]), steps=10**9, name=name, steps_per_epoch=10**8,
            callbacks=announcing, checkpoint=name,
        )

    return [job("one"), job("two")]
"""


@pytest.fixture
def endless(tmp_path):
    """Starts `tfmp colocate` on jobs without end, as the leader of processes of its own."""
    (tmp_path / "endless_jobs.py").write_text(JOBS)
    command = [sys.executable, "-m", "tfmp.commands.cli", "colocate", "endless_jobs:endless"]
    with ExitStack() as started:

        def start(mode: str) -> subprocess.Popen[str]:
            words = [*command, "--mode", mode, "--measure-steps", "0"]
            return started.enter_context(ctrl_c.leading(*words, cwd=tmp_path))

        yield start


def wait_until_training(process: subprocess.Popen[str]) -> None:
    """Until a job has taken steps: it says so."""
    assert process.stderr is not None
    before = []
    stuck = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
    stuck.start()
    try:
        for line in process.stderr:
            if line == "in the middle\n":
                return
            before.append(line)
    finally:
        stuck.cancel()
    pytest.fail("it never trained: " + "".join(before))


# `tests/tfmp/colocation/test_modes.py` interrupts modes in one process at every place.
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["processes", "threads"])
def test_ctrl_c_ends_jobs_with_one_line_and_no_process_left(endless, mode, tmp_path):
    process = endless(mode)
    wait_until_training(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of them are told
    # Both streams end when the last process that could write to them has ended.
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    said = [line for line in err.splitlines() if line != "in the middle"]
    assert said == ["Jobs with a checkpoint go on from their last whole epoch.", "Interrupted."]
    assert out == ""
    assert not list(tmp_path.glob("one/*"))  # half an epoch is no checkpoint


@pytest.mark.slow
def test_processes_end_with_the_one_that_started_them(endless):
    process = endless("processes")
    wait_until_training(process)
    process.kill()
    _, err = process.communicate(timeout=PATIENCE)  # an orphan would hold the streams open
    assert process.returncode == -signal.SIGKILL
    assert "Traceback" not in err


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_doctor(monkeypatch):
    monkeypatch.setattr("tfmp.checkup.checks.read_machine", stop)
    result = CliRunner().invoke(main, ["doctor"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted.\n")
