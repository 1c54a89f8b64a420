"""What an output means: the kind of answer that it holds, and where in it the answers lie."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec, describe

if TYPE_CHECKING:
    from tfmp.converters.intake import OutputHint


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
    ANGLE = "angle"
    QUATERNION = "quaternion"
    OTHER = "other"


# Kinds that a part of the last axis may have.
_WITH_COLUMNS = (Kind.DETECTION, Kind.QUATERNION, Kind.ANGLE)

# Longer numbers are no columns of an output.
_DIGITS = 6

# In how a task was found: the user said it.
DECLARED = "declared"

# And the name says it, which is weak evidence.
NAMED = "its name says"

# And the loss says it, which knows nothing of the labels.
COMPILED = "the model was compiled with"


@dataclass(frozen=True)
class Task:
    """What an output means.

    Attributes:
        kind: kind of answer, one of `Kind`.
        axis: axis of the classes (classification) or of the channels; axis 0 is the batch.
        columns: places on that axis that hold the corners of a box (detection), the numbers of
            a quaternion, or angles; () if all do.
        why: how it is known, as the end of a sentence.
        period: the length of a turn (angle).
    """

    kind: Kind
    axis: int = -1
    columns: tuple[int, ...] = ()
    why: str = DECLARED
    period: float = 360.0

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
        """Reads "KIND[:axis=A,columns=0-3,period=P]" for an output; raises `InputError`."""
        name, _, details = meaning.partition(":")
        try:
            kind = Kind(name.strip().lower())
        except ValueError:
            expected = f"is no kind of output; expected one of {', '.join(Kind)}."
            raise _error(output, f"{name.strip()!r} {expected}") from None
        found: dict[str, Any] = {}
        # "columns=0-3,7" holds a comma of its own.
        for part in filter(None, re.split(r",(?=\s*[a-z])", details)):
            detail, _, value = (each.strip(" ,") for each in part.partition("="))
            try:
                found[detail] = _DETAILS[detail](value)
            except (KeyError, ValueError):
                raise _error(
                    output,
                    f"{part.strip()!r} cannot be read; expected axis=NUMBER (0 is the batch), "
                    "columns=NUMBERS or period=NUMBER, such as axis=1, columns=0-3 or period=360.",
                ) from None
        for detail, owners, what in (
            ("columns", _WITH_COLUMNS, "columns are those of boxes, quaternions or angles"),
            ("period", (Kind.ANGLE,), "a period is that of an angle"),
        ):
            if detail in found and kind not in owners:
                leave = f"Leave it out, or declare {' or '.join(owners)}."
                raise _error(output, f"{what}, and the kind is {kind}. {leave}")
        return cls(kind, **found)

    def __str__(self) -> str:
        details = [f"axis={self.axis}"] if self.axis != -1 else []
        if self.columns:
            details.append("columns=" + ",".join(map(str, self.columns)))
        if self.kind is Kind.ANGLE:
            details.append(f"period={self.period:.10g}")
        return f"{self.kind}{':' if details else ''}{','.join(details)}"


def _error(output: str, problem: str) -> InputError:
    return InputError(f"task of output {output!r}: {problem}")


def _period(text: str) -> float:
    period = float(text)
    if not 0 < period < math.inf:
        raise ValueError
    return period


def _axis(text: str) -> int:
    axis = int(text)
    if axis == 0:
        raise ValueError
    return axis


def _columns(text: str) -> tuple[int, ...]:
    columns: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if max(len(first), len(last)) > _DIGITS:
            raise ValueError
        columns += range(int(first), int(last or first) + 1)
    if not columns:
        raise ValueError
    return tuple(dict.fromkeys(columns))


# How each detail is read; raises `ValueError`.
_DETAILS: Mapping[str, Callable[[str], Any]] = {
    "axis": _axis,
    "columns": _columns,
    "period": _period,
}


# Kinds that read amounts, which integers may be, and booleans and texts are not.
AMOUNTS = frozenset(
    {
        *(Kind.REGRESSION, Kind.EMBEDDING, Kind.RECONSTRUCTION, Kind.DETECTION),
        *(Kind.ANGLE, Kind.QUATERNION),
    }
)

# Kinds that read scores, which are no integers.
YES_OR_NO = frozenset({Kind.MULTILABEL, Kind.BINARY})
_SCORES = YES_OR_NO | {Kind.CLASSIFICATION}

# Kinds whose values are names, compared by equality.
IDS = frozenset({Kind.IDS, Kind.TOKENS})


def is_floating(dtype: np.dtype | str) -> bool:
    """Whether values are compared by distance (float, bfloat16, complex) and not by equality."""
    name = dtype if isinstance(dtype, str) else dtype.name
    return name.startswith(("float", "bfloat", "complex"))


def check_task(task: Task, spec: TensorSpec) -> None:
    """Raises `InputError` if a declared task has an axis or columns that the output lacks."""
    rank = len(spec.shape)
    whole = spec.dtype.startswith(("int", "uint"))
    for kinds, words, fit in (
        (_SCORES, "scores that are no whole numbers", False),
        (AMOUNTS, "amounts", whole),
    ):
        if task.kind in kinds and not (fit or is_floating(spec.dtype)):
            raise _error(
                spec.name,
                f"its values are {spec.dtype}, which are compared by equality, and {task.kind} "
                f"reads {words}. Declare ids.",
            )
    if task.kind is Kind.DETECTION and rank < 2:
        raise _error(
            spec.name,
            f"a detection has a row for each box, and the output's shape is {describe([spec])}. "
            "Declare another kind.",
        )
    if task.axis != -1 and not (0 < task.axis < rank or -rank < task.axis < 0):
        raise _error(
            spec.name,
            f"axis={task.axis} is not one of its axes; its shape is {describe([spec])}. Name an "
            f"axis from 1 to {rank - 1}, or leave axis out.",
        )
    width = spec.shape[task.axis] if rank > 1 else None
    beyond = [column for column in task.columns if width is not None and column >= width]
    if beyond:
        there = f"that axis has {width}, numbered from 0."
        raise _error(spec.name, f"it has no column {beyond[0]}; {there}")
    four = {Kind.DETECTION: "box", Kind.QUATERNION: "quaternion"}.get(task.kind)
    given = len(task.columns) or (width if task.kind is Kind.QUATERNION else None)
    if four is not None and given not in (None, 4):
        raise _error(
            spec.name,
            f"a {four} has four columns, received {given}. Name the four, such as "
            f"{task.kind}:columns=0-3.",
        )


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
            received = f"received {task!r} ({type(task).__name__})."
            raise _error(output, f"expected a text such as 'regression', {received}")
        found[output] = task if isinstance(task, Task) else Task.of(task, output)
    return found


# What losses say of the output that they are computed from, by their name in Keras.
_LOSSES = {
    name: kind
    for kind, names in {
        Kind.CLASSIFICATION: "sparse_categorical_crossentropy categorical_crossentropy "
        "categorical_focal_crossentropy categorical_hinge kl_divergence "
        "kullback_leibler_divergence kld ctc",
        Kind.MULTILABEL: "binary_crossentropy bce binary_focal_crossentropy hinge squared_hinge",
        Kind.REGRESSION: "mse mean_squared_error mae mean_absolute_error mape "
        "mean_absolute_percentage_error msle mean_squared_logarithmic_error huber huber_loss "
        "log_cosh logcosh poisson",
        Kind.EMBEDDING: "cosine_similarity cosine_proximity circle",
    }.items()
    for name in names.split()
}

_ACTIVATIONS = {
    **dict.fromkeys(("softmax", "log_softmax"), Kind.CLASSIFICATION),
    **dict.fromkeys(("sigmoid", "hard_sigmoid", "log_sigmoid"), Kind.MULTILABEL),
    "argmax": Kind.IDS,
}

# Names that frameworks write: Transformers of Hugging Face, and TensorFlow's detection models.
_NAMES = {
    name: kind
    for kind, names in {
        Kind.CLASSIFICATION: "logits logits_per_image logits_per_text",
        Kind.EMBEDDING: "last_hidden_state pooler_output image_embeds text_embeds "
        "sentence_embedding",
        Kind.MULTILABEL: "detection_scores detection_multiclass_scores",
    }.items()
    for name in names.split()
}


def infer_task(
    name: str, dtype: str, shape: tuple[int | None, ...], hint: "OutputHint | None"
) -> Task | None:
    """What a model's own facts say of an output that nobody declared and no label explains.

    The loss that the model was compiled with says more than the activation, and this more than the
    name; a name is believed only where the shape agrees.

    Args:
        name: the output's name.
        dtype: its dtype.
        shape: its shape, batch first; None for an open size.
        hint: facts of the model; None if there are none.

    Returns:
        The task; None if it has to follow from the values.
    """
    if not is_floating(dtype):  # compared by equality
        return None
    one = len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    loss, activation = (hint.loss, hint.activation) if hint else (None, None)
    axis = (hint.axis if hint else None) or -1
    if axis % max(1, len(shape)) == 0:  # that of the samples
        axis = -1
    if loss in _LOSSES and not (
        _LOSSES[loss] is Kind.REGRESSION
        and _ACTIVATIONS.get(activation or "") is Kind.CLASSIFICATION
    ):
        return Task(_fitting(_LOSSES[loss], one, shape, axis), axis, why=f"{COMPILED} {loss}")
    if activation in _ACTIVATIONS:
        kind = _fitting(_ACTIVATIONS[activation], one, shape, axis)
        return Task(kind, axis, why=f"its last operation is {activation}")
    named = next((each for each in _NAMES if words_of(name).endswith(f"_{each}_")), None)
    if named is None:
        return None
    return Task(_fitting(_NAMES[named], one, shape), why=f"{NAMED} {named!r}")


def _fitting(kind: Kind, one: bool, shape: tuple[int | None, ...], axis: int = -1) -> Kind:
    """The kind for outputs of this shape: one score decides between yes and no."""
    if one and kind in (Kind.CLASSIFICATION, Kind.MULTILABEL):
        return Kind.BINARY
    if kind is Kind.CLASSIFICATION and shape[axis] == 1:
        return Kind.MULTILABEL
    return kind


def words_of(name: str) -> str:
    """The words of a name: "Partitioned:classLogits" as "_partitioned_class_logits_"."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return f"_{re.sub('[^a-z]+', '_', parted.lower()).strip('_')}_"
