"""Which Ray is taken, how many workers fit on it, and what is said where there is none."""

import os
import socket
import subprocess
import sys

import pytest

from tfmp.converters.distributed.cluster import (
    Staffing,
    check_address,
    connected,
    staffing,
)
from tfmp.converters.shared.errors import InputError

CPU8 = {"CPU": 8.0, "memory": 1e9}
GPU2 = {"CPU": 16.0, "GPU": 2.0}


@pytest.mark.parametrize(
    ("nodes", "workers", "device", "gpu_by_default", "expected"),
    [
        ([{"CPU": 2.0}], None, "auto", True, Staffing(1, 2, 0)),
        ([{"CPU": 2.0}], 2, "auto", True, Staffing(2, 1, 0)),
        ([CPU8, CPU8], None, "cpu", True, Staffing(4, 4, 0)),
        ([CPU8, CPU8], 6, "cpu", True, Staffing(6, 2, 0)),
        ([CPU8, {"memory": 1e9}], None, "cpu", True, Staffing(2, 4, 0)),
        ([CPU8, GPU2], None, "auto", True, Staffing(2, 4, 1)),
        ([CPU8, GPU2], None, "auto", False, Staffing(6, 4, 0)),
        ([CPU8, GPU2], 1, "gpu", False, Staffing(1, 4, 1)),
    ],
)
def test_workers_fit_the_machines(nodes, workers, device, gpu_by_default, expected):
    assert staffing(nodes, workers, device, gpu_by_default) == expected


@pytest.mark.parametrize(
    ("nodes", "workers", "device", "message"),
    [
        ([CPU8], 9, "cpu", r"workers: this Ray has CPUs for 8, received 9\. Ask for fewer"),
        ([GPU2], 3, "gpu", r"workers: this Ray has GPUs and CPUs for 2, received 3\."),
        ([CPU8], None, "gpu", r"device: expected a GPU for 'gpu', but no machine of this Ray"),
        ([{"memory": 1.0}], None, "cpu", r"workers: this Ray has CPUs for 0, received 1\."),
    ],
)
def test_what_does_not_fit_is_told(nodes, workers, device, message):
    with pytest.raises(InputError, match=message):
        staffing(nodes, workers, device, gpu_by_default=True)


def test_the_report_says_what_workers_had():
    assert Staffing(2, 1, 0).text == "2 workers with 1 CPU each"
    assert Staffing(1, 4, 1).text == "1 worker with 4 CPUs and a GPU each"


def test_ray_that_is_not_installed_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"not installed\. Install it with: pip install 'tfmp\["):
        check_address("local")


@pytest.mark.parametrize("address", ["ray://head:10001", "head", ":6379", "head:", "head:port", ""])
def test_an_address_of_no_known_form_is_told(address):
    pytest.importorskip("ray", reason="Ray is not installed")
    with pytest.raises(InputError, match=r"ray: expected local, auto or HOST:PORT of a cluster's"):
        check_address(address)


def test_an_address_that_nobody_answers_at_is_told():
    pytest.importorskip("ray", reason="Ray is not installed")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"ray: nothing answers at '{address}' \(.*refused"):
            check_address(address)


@pytest.mark.parametrize(
    ("address", "fault", "told"),
    [
        (
            "auto",
            ConnectionError("Could not find any running Ray instance."),
            r"ray: no Ray answers at 'auto' \(Could not find .*\)\. Start one with `ray start",
        ),
        (
            "local",
            RuntimeError("The current node timed out during startup."),
            r"ray: no Ray could be started here \(The current .*\)\. Try again when this",
        ),
    ],
)
def test_a_ray_that_does_not_answer_is_told(address, fault, told, monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def init(**_):
        raise fault

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError, match=told), connected(address, None):
        pass


def test_a_local_ray_is_started_for_this_machine_alone(monkeypatch):
    """Its processes would listen on every interface, and run code for everybody who asks."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from ray._private import ray_constants

    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    switch, seen = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", []

    def init(**options):
        mask = os.umask(0o077)
        os.umask(mask)
        seen.append((ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(switch), mask))

    monkeypatch.setattr(ray, "init", init)
    for address in ("local", "auto"):
        with connected(address, 1):
            assert (ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(switch)) == (True, None)
    (_, _, usual) = seen[1]
    assert seen == [(False, "0", 0o077), (True, None, usual)]


# Prints where the processes that Ray started listen, and no other process of the machine.
LISTENING = """
import os
from contextlib import suppress
from pathlib import Path
from tfmp.converters.distributed.cluster import connected

def is_below(process):
    while process not in (0, os.getpid()):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process > 0

def open_files():
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if is_below(int(folder.name)):
                for file in (folder / "fd").iterdir():
                    with suppress(OSError):
                        yield os.readlink(file)

with connected("local", 1) as ray:
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    own = set(open_files())
    lines = [line.split() for name in ("tcp", "tcp6")
             for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    print(*(line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_local_ray_listens_on_loopback(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LISTENING], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    places = done.stdout.split()
    assert places
    assert all(place.partition(":")[0].endswith("0100007F") for place in places)
    token = tmp_path / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o077 == 0
