"""Ends calls of models that come from a file and may never end, such as a loop without an end."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfmp.converters.shared.errors import InputError

# Large models take some seconds for a sample on a slow machine.
_SECONDS = 30.0
_SECONDS_A_SAMPLE = 10.0


class OverTime(InputError):
    """A model's call that was ended."""


@contextmanager
def tensorflow_ends(model: str, samples: int) -> Iterator[None]:
    """Gives the TensorFlow functions that are called inside a limited time.

    Args:
        model: its name, for the message.
        samples: the number that it is called with.

    Raises:
        OverTime: the time is over.
    """
    from tensorflow.python.eager import cancellation
    from tensorflow.python.framework.errors import CancelledError

    manager = cancellation.CancellationManager()
    with _timer(samples, manager.start_cancel):
        try:
            with cancellation.CancellationManagerContext(manager):
                yield
        except CancelledError as error:
            if not manager.is_cancelled:
                raise
            raise _too_slow(model, samples) from error


@contextmanager
def onnx_runtime_ends(model: str, samples: int) -> Iterator[Any]:
    """Gives options for an ONNX Runtime call that ends it in time; see `tensorflow_ends`."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    over = threading.Event()

    def end() -> None:
        over.set()
        options.terminate = True

    with _timer(samples, end):
        try:
            yield options
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            if not over.is_set():
                raise
            raise _too_slow(model, samples) from error


def _limit_s(samples: int) -> float:
    return _SECONDS + _SECONDS_A_SAMPLE * samples


@contextmanager
def _timer(samples: int, end: Any) -> Iterator[None]:
    timer = threading.Timer(_limit_s(samples), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _too_slow(model: str, samples: int) -> OverTime:
    return OverTime(
        f"model {model!r} did not end within {_limit_s(samples):g} s on {samples} samples, and was "
        "stopped: a loop in it may have no end. If you trust the source of the model, give it all "
        "the time that it takes with --unsafe-load (unsafe_load=True)."
    )
