"""One process with TensorFlow's TFLite converter for all tests: a start takes five seconds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tfmp.converters.shared.worker import Worker, WorkerError

# Each conversion leaks about 22 MB there.
MOST_CALLS = 100


class SharedConverter:
    """Stands in for the worker that `start_converter` gives, and outlives its blocks.

    Args:
        start: starts a real one; called when it is first needed, and after it failed.
    """

    def __init__(self, start: Callable[[], Worker]) -> None:
        self._start = start
        self._worker: Worker | None = None
        self._calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """The next test uses it too."""

    def call(self, method: str, *args: Any) -> Any:
        """As `Worker.call`; the process is not in the test's working directory."""
        if self._worker is None or self._calls == MOST_CALLS:
            self.close()
            self._worker, self._calls = self._start(), 0
        self._calls += 1
        absolute = (arg.absolute() if isinstance(arg, Path) else arg for arg in args)
        try:
            return self._worker.call(method, *absolute)
        except WorkerError:
            self.close()
            raise

    def close(self) -> None:
        """Ends the process, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
