"""Every replica and worker takes the same decision: TensorFlow's strategies, in processes."""

import json
import math
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest
from repository import ROOT, SUPPORT

pytestmark = pytest.mark.slow


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SUPPORT / "distributed_steps.py"), *arguments],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(process: subprocess.Popen[str], seconds: float) -> dict:
    with process:
        try:
            output, errors = process.communicate(timeout=seconds)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def test_replicas_average_unscaled_gradients_and_refuse_a_step_across_them():
    mirrored = result_of(start("mirrored"), seconds=300)
    assert mirrored["unscaled"] == [3.0, 3.0]  # each of both applies the mean, and they are summed
    assert "Call it inside the function given to strategy.run()." in mirrored["across_replicas"]


def free_ports(count: int) -> list[int]:
    """Ports below those that systems hand out unasked, from 32768 on: nobody else gets these."""
    first = os.getpid() * 16 % 12_000
    found: list[int] = []
    with ExitStack() as held:
        for port in range(20_000 + first, 33_000):
            probe = held.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                break
    return found


def test_two_workers_skip_the_same_steps():
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    started = []
    for index in range(2):
        config = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}}
        started.append(start("worker", TF_CONFIG=json.dumps(config)))
    try:
        first, second = (result_of(worker, seconds=240) for worker in started)
    finally:
        for worker in started:
            worker.kill()
    assert first == second
    assert all(map(math.isfinite, first["weights"]))
    assert first["skipped"] == 3
    assert (first["scale"], first["iterations"]) == (2.0**12, 3)
    assert first["weights"] != [1.0, 1.0]


def test_a_loop_with_a_parameter_server_skips_steps():
    ports = [str(port) for port in free_ports(2)]
    assert result_of(start("parameter_server", *ports), seconds=240) == {
        "weights": pytest.approx([0.8, 0.6]),
        "skipped": 1,
        "scale": 2.0**14,
        "iterations": 2,
    }
