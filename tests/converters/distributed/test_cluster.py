"""Which Ray is taken, how many workers fit on it, and what is said where there is none."""

import socket
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


def test_no_ray_on_this_machine_is_told(monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def init(**_):
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    told = r"ray: no Ray answers at 'auto' \(Could not find .*\)\. Start one with `ray start"
    with pytest.raises(InputError, match=told), connected("auto", None):
        pass
