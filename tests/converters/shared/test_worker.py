"""Worker processes: what comes back, what stays there, and how each way to die is told."""

import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from repository import SUPPORT

from tfmp.converters.shared.errors import ConversionError, MachineError, RunnerError
from tfmp.converters.shared.worker import Worker, WorkerError, close_idle, kept_worker

HERE = str(SUPPORT)


def start(*args: object, timeout_s: float = 60, **options: object) -> Worker:
    return Worker(
        "worker_targets:Target", *args, label="test worker", timeout_s=timeout_s, **options
    )


@pytest.fixture
def worker() -> Iterator[Worker]:
    with start() as worker:
        yield worker


def test_one_worker_serves_all_kinds_of_calls(worker: Worker) -> None:
    values = np.zeros(1 << 20, np.float64)
    assert worker.call("add", values).nbytes == values.nbytes
    assert worker.call("identity") != os.getpid()
    modules = worker.call("modules")
    assert "pytest" not in modules
    assert "tensorflow" not in modules
    assert worker.call("print_to_everything") == "clean"
    for text in ("python output", "native output", "native error stream"):
        assert text in worker.log()
    with pytest.raises(ConversionError) as caught:
        worker.call("refuse")
    assert type(caught.value) is ConversionError
    assert str(caught.value) == "layer 'norm': cannot be converted. Use another one."
    assert caught.value.refusal.remedy == "Use another one"
    with pytest.raises(RunnerError, match=r"^test worker: ZeroDivisionError: division by zero\.$"):
        worker.call("divide")
    assert worker.call("identity") != os.getpid()
    with pytest.raises(WorkerError, match=r"pickle|local object"):  # Python 3.13 has other words
        worker.call("unpicklable")
    assert worker.call("identity")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("no_such_library:Target", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("worker_dies_at_import:Target", "the process was ended by SIGILL"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_the_machines_fault(module: str, reason: str) -> None:
    with (
        Worker(module, label="test worker", timeout_s=60) as worker,
        pytest.raises(MachineError, match="It cannot start on this machine with any") as caught,
    ):
        worker.call("add", 1)
    assert reason in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_a_native_abort_is_told_with_the_line_that_says_why(worker: Worker) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.call("abort")
    assert str(caught.value) == (
        "test worker: the process was ended by SIGABRT "
        "(F0000 kernel.cc:12] Check failed: rank == 4)."
    )
    assert "all is well" in caught.value.log


def test_a_process_that_leaves_is_told_with_its_status(worker: Worker) -> None:
    with pytest.raises(WorkerError, match="ended by itself with status 7"):
        worker.call("leave")
    with pytest.raises(WorkerError, match="ended by itself with status 7"):
        worker.call("identity")


def test_a_hang_ends_with_the_time_that_was_given() -> None:
    with start() as worker:
        worker.call("identity")
        worker._timeout_s = 0.5
        with pytest.raises(WorkerError, match=r"no answer within 0.5 s, so it was stopped"):
            worker.call("hang")


def test_leaving_ends_a_process_that_is_still_starting() -> None:
    with start() as worker:
        pass
    assert worker._process.returncode is not None
    worker.close()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux process handles")
def test_the_process_ends_when_its_caller_dies() -> None:
    script = textwrap.dedent(
        f"""
        import os, sys
        sys.path.insert(0, {HERE!r})
        from tfmp.converters.shared.worker import Worker
        worker = Worker("worker_targets:Target", label="test", timeout_s=60)
        print(worker.call("identity"), flush=True)
        worker._send(("hang", ()))
        os._exit(0)
        """
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    try:
        handle = os.pidfd_open(int(child.stdout))
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([handle], [], [], 60)
    finally:
        os.close(handle)
    assert ended, "the orphan still runs its call"


def test_scripts_without_a_main_guard_run_once(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {HERE!r})\n"
        "from tfmp.converters.shared.worker import Worker\n"
        "print('top level')\n"
        "with Worker('worker_targets:Target', label='test', timeout_s=60) as worker:\n"
        "    worker.call('identity')\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == ["top level", ""]


def test_files_in_the_working_directory_do_not_shadow_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise ImportError('shadowed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    with start() as worker:
        assert worker.call("identity")


def test_one_process_serves_several_blocks() -> None:
    """One that was interrupted, or died, is not asked again."""
    kept = partial(kept_worker, "worker_targets:Target", label="test", timeout_s=60)
    seen = []
    for error in (None, ConversionError("refused"), KeyboardInterrupt(), None):
        with suppress(ConversionError, KeyboardInterrupt), kept() as worker:
            seen.append(worker)
            if error is not None:
                raise error
    first, second, third, fourth = seen
    assert first is second is third is not fourth
    with kept() as worker:
        assert worker is fourth
        worker._process.kill()
        worker._process.wait()
    with kept() as worker:
        assert worker is not fourth
    close_idle()
    assert not worker.alive
