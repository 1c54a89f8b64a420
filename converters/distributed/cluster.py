"""A Ray to run on: found or started, and how many workers fit."""

import atexit
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tfmp.converters.shared.errors import InputError
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.watched import heeding, order_of
from tfmp.shared.wording import counted

LOCAL, RUNNING = "local", "auto"

# CPUs for a worker where nothing else is asked for: TensorFlow and ONNX Runtime use several.
_CPUS = 4

# Names of sockets end at 107 bytes on Linux; Ray puts some 64 behind its folder's.
_LONGEST_FOLDER = 40

# Ray itself retries an address that nobody answers at for minutes.
_ANSWER_S = 5.0


@dataclass(frozen=True)
class Staffing:
    """Workers, and the share of each.

    Attributes:
        workers: how many.
        cpus: for each.
        gpus: for each.
    """

    workers: int
    cpus: int
    gpus: int

    @property
    def text(self) -> str:
        """For the report."""
        share = counted(self.cpus, "CPU") + (" and a GPU" if self.gpus else "")
        return f"{counted(self.workers, 'worker')} with {share} each"


def check_address(address: str) -> None:
    """Raises `InputError` unless Ray is installed and something answers at `address`."""
    try:
        import ray  # noqa: F401
    except ImportError as error:
        raise InputError(
            "ray: validation on several machines needs Ray, which is not installed. Install it "
            "with: pip install 'tfmp[ray]'"
        ) from error
    if address in (LOCAL, RUNNING):
        return
    host, colon, port = address.rpartition(":")
    if "/" in address or not colon or not host or not port.isdecimal():
        raise InputError(
            f"ray: expected local, auto or HOST:PORT of a cluster's head, received {address!r}. "
            "Start a run on a machine of the cluster, and name its Ray with auto."
        )
    _check_answer(address)


@contextmanager
def connected(address: str, workers: int | None) -> Iterator[Any]:
    """The module `ray`, connected; a Ray that was started here is ended.

    Args:
        address: "local" to start one on this machine, "auto" for the one this machine is part of,
            or HOST:PORT. A connection that is open already is taken as it is.
        workers: that a Ray on this machine has to have room for.

    Raises:
        InputError: there is no Ray.
    """
    with heeding():
        check_address(address)
        import ray
    if ray.is_initialized():
        yield ray
        return
    # Nothing about a run leaves the machine unless its owner has said so.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with ExitStack() as stack:
        if address == LOCAL:
            cpus = max(os.cpu_count() or 1, workers or 1)
            given |= {"num_cpus": cpus, "include_dashboard": False}
            folder = str(stack.enter_context(temporary_folder()))
            if len(folder) <= _LONGEST_FOLDER:
                given["_temp_dir"] = folder
        stack.callback(_end, ray, address)
        try:
            # Ray would end this process for an order in its own way.
            with heeding(), _on_loopback() if address == LOCAL else nullcontext():
                ray.init(address=address, **given)
        except Exception as error:  # ConnectionError, RuntimeError, ValueError: by what is wrong
            reason = " ".join(str(error).split())[:300]
            if address == LOCAL:
                raise InputError(
                    f"ray: no Ray could be started here ({reason}). Try again when this machine is "
                    "less busy, or validate without Ray."
                ) from error
            raise InputError(
                f"ray: no Ray answers at {address!r} ({reason}). Start one with `ray start "
                "--head`, or use local."
            ) from error
        yield ray


def _end(ray: Any, address: str) -> None:
    if is_ending(address):
        atexit.unregister(ray.shutdown)
    else:
        ray.shutdown(wait_for_processes=address == LOCAL)


def is_ending(address: str) -> bool:
    """Whether a Ray ends with this process, which was told to end.

    Its processes may have been told as well: whoever asks them for something waits for long.
    """
    return address == LOCAL and bool(order_of())


# Ray's switch between machines that may join and this one alone.
_JOINABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Has a Ray that starts here listen on 127.0.0.1 alone, and keep its token to its owner.

    On Linux, Ray's processes listen on every interface, and whoever talks to them can run code.
    Ray has a mode without a network, which is the default of Windows and macOS.
    """
    before = os.environ.get(_JOINABLE)
    os.environ[_JOINABLE] = "0"  # for Ray's processes
    from ray._private import ray_constants

    constants = vars(ray_constants)  # for this one: Ray may have been imported earlier
    joinable, constants["ENABLE_RAY_CLUSTER"] = constants.get("ENABLE_RAY_CLUSTER"), False
    mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(mask)
        constants["ENABLE_RAY_CLUSTER"] = joinable
        if before is None:
            del os.environ[_JOINABLE]
        else:
            os.environ[_JOINABLE] = before


def _check_answer(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S):
            pass
    except (OSError, OverflowError) as error:
        raise InputError(
            f"ray: nothing answers at {address!r} ({error}). Check host and port of the cluster's "
            "head (`ray status` there), start one with `ray start --head`, or use local."
        ) from error


def staffing(
    nodes: Sequence[Mapping[str, float]], workers: int | None, device: str, gpu_by_default: bool
) -> Staffing:
    """The number of workers that fit on a cluster, and the share of each.

    Args:
        nodes: resources of each machine: "CPU", "GPU".
        workers: how many there are to be; None for as many as fit.
        device: "cpu", "gpu" or "auto".
        gpu_by_default: whether "auto" takes GPUs for the candidates where there are any.

    Raises:
        InputError: no GPU where one was asked for, or fewer workers fit than were asked for.
    """
    gpus = [int(node.get("GPU", 0)) for node in nodes]
    gpu = int(device == "gpu" or (device == "auto" and gpu_by_default and any(gpus)))
    cpus = [int(node.get("CPU", 0)) for node in nodes]
    if gpu:
        cpus = [cpu for cpu, cards in zip(cpus, gpus, strict=True) if cards]
        gpus = [cards for cards in gpus if cards]
    each = min([_CPUS, *(cpu for cpu in cpus if cpu)])

    def room(each: int) -> int:
        return sum(
            min(cpu // each, cards) if gpu else cpu // each
            for cpu, cards in zip(cpus, gpus, strict=True)
        )

    if gpu and not room(1):
        raise InputError(
            "device: expected a GPU for 'gpu', but no machine of this Ray has one. Use device cpu, "
            "or start Ray with `ray start --num-gpus N` where there is one."
        )
    while workers is not None and each > 1 and room(each) < workers:
        each -= 1
    if room(each) < (workers or 1):
        what = "GPUs and CPUs" if gpu else "CPUs"
        raise InputError(
            f"workers: this Ray has {what} for {room(each)}, received {workers or 1}. Ask for "
            "fewer, or add machines to it."
        )
    return Staffing(workers or room(each), each, gpu)
