"""Errors that a user can fix. The command line prints only their text, and exits with status 2."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tfmp.shared.framework_start import tensorflow_uses_onednn


@dataclass(frozen=True)
class Refusal:
    """Why something cannot be used as given: a sentence each, without the full stop.

    Attributes:
        what: the finding, such as "is a pointer of Git LFS".
        where: the file, layer or option; "" where `what` says it.
        why: the reason; "" where `what` is enough.
        remedy: the next step, a command or an argument.
    """

    what: str
    where: str = ""
    why: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """The refusal as text, for the command line and Python."""
        finding = f"{self.where}: {self.what}" if self.where else self.what
        rest = [part for part in (self.why, self.remedy) if part]
        return " ".join(f"{part.rstrip('.')}." for part in (finding, *rest)) if rest else finding

    def at(self, where: object) -> "Refusal":
        """The same refusal at a place, such as the file that a part of it was found in."""
        return replace(self, where=f"{where}: {self.where}" if self.where else str(where))


class InputError(ValueError):
    """A model, data file, option or output path that cannot be used as given.

    Attributes:
        refusal: its parts.
    """

    def __init__(
        self, told: "str | Refusal", remedy: str = "", *, where: object = "", why: str = ""
    ) -> None:
        """Takes a refusal, or its parts."""
        self.refusal = told if isinstance(told, Refusal) else Refusal(told, str(where), why, remedy)
        super().__init__(str(self.refusal))


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
            "Check their sizes and values: ids, for example, have to lie within the vocabulary."
        )
        raise InputError(
            f"model {model!r} cannot run on these samples: {reason}", way_out
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
    # A place in ONNX Runtime's source: file and line, and the function with its types.
    line = re.sub(r"^/\S+:\d+ .*?\)(?: const)?(?: \[with [^\]]*\])? ", "", line)
    return re.sub(r"^\{\{.*?\}\}\s*", "", line).rstrip(".")
