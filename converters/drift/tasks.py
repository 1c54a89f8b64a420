"""What an output means: the kind of answer that it holds, and where in it the answers lie."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tfmp.converters.shared.errors import InputError


class Kind(StrEnum):
    """The kinds of answers that outputs hold."""

    CLASSIFICATION = "classification"
    MULTILABEL = "multilabel"
    BINARY = "binary"
    REGRESSION = "regression"
    EMBEDDING = "embedding"
    DETECTION = "detection"
    TOKENS = "tokens"
    IDS = "ids"
    RECONSTRUCTION = "reconstruction"
    OTHER = "other"


# Kinds whose answers are decisions: values are compared by what follows from them.
DECIDING = frozenset({Kind.CLASSIFICATION, Kind.MULTILABEL, Kind.BINARY, Kind.TOKENS, Kind.IDS})

# In how a task was found: the user said it.
DECLARED = "declared"


@dataclass(frozen=True)
class Task:
    """What an output means.

    Attributes:
        kind: kind of answer, one of `Kind`.
        axis: axis of the classes (classification) or of the channels; axis 0 is the batch.
        columns: places on the last axis that hold the corners of a box (detection); () if all do.
        why: how it is known, as the end of a sentence.
    """

    kind: Kind
    axis: int = -1
    columns: tuple[int, ...] = ()
    why: str = DECLARED

    @classmethod
    def parse(cls, text: str) -> tuple[str, "Task"]:
        """Reads "OUTPUT=KIND[:axis=A,columns=0-3]", as on the command line.

        Returns:
            The output's name and its task.

        Raises:
            InputError: the text has another form, or no such kind exists.
        """
        output, equals, meaning = text.partition("=")
        if not (output.strip() and equals):
            raise InputError(
                f"task {text!r}: expected OUTPUT=KIND, such as logits=classification or "
                "mask=classification:axis=1."
            )
        return output.strip(), cls.of(meaning, output.strip())

    @classmethod
    def of(cls, meaning: str, output: str) -> "Task":
        """Reads "KIND[:axis=A,columns=0-3]" for an output; raises `InputError`."""
        name, _, details = meaning.partition(":")
        try:
            kind = Kind(name.strip().lower())
        except ValueError:
            raise InputError(
                f"task of output {output!r}: {name.strip()!r} is no kind of output; expected one "
                f"of {', '.join(Kind)}."
            ) from None
        found: dict[str, str] = {}
        # "columns=0-3,7" holds a comma of its own.
        for match in re.finditer(r"([a-z]+)=((?:-?[\d-]+,?)+)", details):
            found[match[1]] = match[2].rstrip(",")
        rest = re.sub(r"([a-z]+)=((?:-?[\d-]+,?)+)", "", details).strip(" ,")
        unknown = sorted(set(found) - {"axis", "columns"})
        if rest or unknown:
            raise InputError(
                f"task of output {output!r}: {(unknown or [rest])[0]!r} cannot be read; expected "
                "axis=NUMBER or columns=NUMBERS, such as axis=1 or columns=0-3."
            )
        axis = _axis(found["axis"], output) if "axis" in found else -1
        columns = _columns(found["columns"], output) if "columns" in found else ()
        if columns and kind is not Kind.DETECTION:
            raise InputError(
                f"task of output {output!r}: columns are those of a detection's boxes, and the "
                f"kind is {kind}. Leave columns out, or declare detection."
            )
        return cls(kind, axis, columns)

    def __str__(self) -> str:
        details = [f"axis={self.axis}"] if self.axis != -1 else []
        if self.columns:
            details.append("columns=" + ",".join(map(str, self.columns)))
        return f"{self.kind}{':' if details else ''}{','.join(details)}"


def _axis(text: str, output: str) -> int:
    try:
        axis = int(text)
    except ValueError:
        axis = 0
    if axis == 0:
        raise InputError(
            f"task of output {output!r}: axis={text} is not an axis of answers; expected a whole "
            "number other than 0, which is the batch."
        )
    return axis


def _columns(text: str, output: str) -> tuple[int, ...]:
    columns: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(
                f"task of output {output!r}: columns={text} cannot be read; expected numbers from "
                "0, such as 0-3 or 0,1,2,3."
            )
        columns += range(int(first), int(last if dash else first) + 1)
    if not columns:
        raise InputError(f"task of output {output!r}: columns={text} names no column.")
    return tuple(dict.fromkeys(columns))


def read_tasks(tasks: Mapping[str, object] | None) -> dict[str, Task]:
    """The tasks that a user declares, by output name: `Task`s or texts such as "regression".

    Raises:
        InputError: one of them cannot be read.
    """
    if tasks is not None and not isinstance(tasks, Mapping):
        raise InputError(
            "tasks: expected a dict of a kind by output name, such as {'logits': "
            f"'classification'}}; received {tasks!r} ({type(tasks).__name__})."
        )
    found = {}
    for output, task in (tasks or {}).items():
        if not isinstance(task, str | Task):
            raise InputError(
                f"task of output {output!r}: expected a text such as 'regression', received "
                f"{task!r} ({type(task).__name__})."
            )
        found[output] = task if isinstance(task, Task) else Task.of(task, output)
    return found
