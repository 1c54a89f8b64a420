"""Errors that a user can fix. The command line prints only their text, and exits with status 2."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tfmp.shared.framework_start import tensorflow_uses_onednn


class InputError(ValueError):
    """A model, data file, option or output path that cannot be used as given.

    The text names the file or value, says what was expected and what was received, and ends with
    the next step.
    """


class ConversionError(InputError):
    """A model that was read but cannot be converted; the text names the layer or op."""


class RunnerError(RuntimeError):
    """An execution of a model that failed: it costs one candidate its verdict, not the run."""


class MachineError(RunnerError):
    """A runtime that cannot start or go on here, whatever model it is given.

    It says nothing of a candidate: a validation ends with it as an `InputError`.
    """


@contextmanager
def running_on_samples(model: str) -> Iterator[None]:
    """Turns a framework's complaint about samples into an `InputError`; other errors pass.

    Only running a model shows that it cannot take a value, such as an id beyond its vocabulary.
    """
    try:
        yield
    except Exception as error:
        own = type(error).__module__.partition(".")[0] not in ("tensorflow", "onnxruntime")
        if own and not isinstance(error, RunnerError):
            raise
        reason = _reason(error)
        way_out = missing_kernel(reason) or (
            "Check their values: ids, for example, have to lie within the vocabulary."
        )
        raise InputError(
            f"model {model!r} cannot run on these samples: {reason}. {way_out}"
        ) from error


def missing_kernel(reason: str) -> str:
    """The way out where TensorFlow lacks a kernel that it has with oneDNN; "" elsewhere."""
    # "The Conv2D op currently only supports the NHWC tensor format on the CPU", "Current CPU
    # implementations do not yet support dilation rates larger than 1", "... only supports NHWC"
    if not re.search(r"\bCPU\b|NHWC", reason) or tensorflow_uses_onednn():
        return ""
    return "Set TF_ENABLE_ONEDNN_OPTS=1 before TensorFlow starts: with oneDNN it has more kernels."


def _reason(error: Exception) -> str:
    """The sentence that gives the reason.

    TensorFlow puts lines of code before it and names of nodes behind it; ONNX Runtime puts the
    names of its statuses before it.
    """
    text = re.split(r"\n\s*\[\[\{\{node|\s*\[Op:", str(error).strip())[0]
    line = text.strip().splitlines()[-1] if text.strip() else type(error).__name__
    line = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (.* Status Message: )?", "", line)
    return re.sub(r"^\{\{.*?\}\}\s*", "", line).rstrip(".")
