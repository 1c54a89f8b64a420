"""Errors that a user can mend. The command line prints their text alone and exits with status 2."""

import re
from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """A model, data file, option or output path that cannot be used as given.

    The text names the file or value, says what was expected and what was received, and ends with
    the next step.
    """


class ConversionError(InputError):
    """A model that was read but cannot be converted; the text names the layer or op."""


class RunnerError(RuntimeError):
    """An execution of a model that failed: it costs one candidate its verdict, not the run."""


@contextmanager
def running_on_samples(model: str) -> Iterator[None]:
    """Makes what a framework says of values that a model cannot take an `InputError`.

    Such as ids beyond a vocabulary, which only running the model tells. Everything else passes.
    """
    try:
        yield
    except Exception as error:
        own = type(error).__module__.partition(".")[0] not in ("tensorflow", "onnxruntime")
        if own and not isinstance(error, RunnerError):
            raise
        raise InputError(
            f"model {model!r} cannot run on these samples: {_reason(error)}. Check their values: "
            "ids, for one, have to lie within the vocabulary."
        ) from error


def _reason(error: Exception) -> str:
    """The sentence that says it: TensorFlow puts lines of code before and names of nodes behind,
    ONNX Runtime the names of its statuses before."""
    text = re.split(r"\n\s*\[\[\{\{node|\s*\[Op:", str(error).strip())[0]
    line = text.strip().splitlines()[-1] if text.strip() else type(error).__name__
    line = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (.* Status Message: )?", "", line)
    return re.sub(r"^\{\{.*?\}\}\s*", "", line).rstrip(".")
