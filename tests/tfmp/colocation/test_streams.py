"""streams: each job on a logical device of its own, in a process that has not begun before."""

import json
import os
import subprocess
import sys

import pytest
from backends import only_on
from repository import ROOT

from tfmp.colocation.streams import streams_of
from tfmp.machine import accelerators


def output_of(*arguments):
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_DETERMINISTIC_OPS": "1"}
    environment["PYTHONPATH"] = f"{ROOT / 'tests/support'}:{environment.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/support/stream_jobs.py", *arguments],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.slow
def test_each_job_is_on_its_own_device_and_ends_as_it_does_alone():
    found = json.loads(output_of())
    assert found["errors"] == ["", ""]
    (first,), (second,) = found["devices"]
    assert first.endswith("CPU:0")
    assert second.endswith("CPU:1")
    assert found["same"] == [True, True]
    assert found["why"].startswith("the steps ")


@pytest.mark.slow
def test_a_tensorflow_that_has_begun_cannot_be_split():
    assert output_of("late") == (
        "Mode 'streams' expects 2 logical devices, but TensorFlow has begun with 1: begin with "
        "this mode in a new process, before any other use of TensorFlow."
    )


@only_on("torch", reason="TensorFlow gives a processor streams, JAX not even a card")
def test_pytorch_has_streams_on_cards_only():
    if not accelerators():
        with pytest.raises(
            ValueError, match=r"'streams' expects a card with CUDA; PyTorch sees no"
        ):
            streams_of(2)
        return
    assert len(set(streams_of(2))) == 2


@only_on("jax", reason="the others have several")
def test_jax_has_one_stream():
    with pytest.raises(ValueError, match=r"with several streams; JAX has one stream for all jobs"):
        streams_of(2)
