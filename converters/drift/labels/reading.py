"""How labels are read: which answers of an output they belong to."""

from dataclasses import replace

import numpy as np

from tfmp.converters.drift import DECLARED, Kind, Task, is_floating
from tfmp.converters.shared.errors import InputError

# A way to read labels follows from dtypes and shapes and not from values: the first batch may hold
# ones and zeros by chance. `totals.settled` decides what is left open, from all batches.
CLASS_IDS = "class ids"
IDS = "ids of the output itself"
ROWS = "rows"
VALUES = "values"

# What labels turn out to be.
ONE_HOT = "one-hot"
BINARY = "binary"
MULTI_LABEL = "multi-label"
REGRESSION = "regression"
CUSTOM = "custom"

_ALONG = f"{CLASS_IDS} along axis "

# The end of a reading for labels of whole sequences, which the last step answers.
_LAST_STEP = " of the last step"

# Kinds of outputs whose labels are the numbers that they should be.
_NUMBERS = (Kind.REGRESSION, Kind.EMBEDDING, Kind.RECONSTRUCTION)


def read_labels(labels: np.ndarray, output: np.ndarray, name: str, task: Task | None = None) -> str:
    """The way to read labels for an output.

    Args:
        labels: labels of one batch, samples first.
        output: the reference's output for that batch.
        name: the output's name in messages.
        task: what the output means, if it is known. A declared task decides; another one tells
            only which axis holds the classes.

    Returns:
        One of the ways above, "class ids along axis A" for answers of more than one a sample.

    Raises:
        InputError: the labels fit no reading.
    """
    declared = task.kind if task is not None and task.why == DECLARED else None
    found = _read(labels, output, task, declared)
    if found is not None:
        return found
    expected = (
        f"the output was declared as {declared}, and {_EXPECTED[declared]}"
        if declared in _EXPECTED
        else "expected class ids (integers, one per sample, pixel or token), one-hot or "
        "multi-label rows (zeros and ones, one column per class) or regression targets (the "
        "output's shape)"
    )
    raise InputError(
        f"labels do not fit output {name!r} of shape {_shape(output)}: received {labels.dtype} "
        f"of shape {_shape(labels)}; {expected}. Pass labels in one of these forms, declare a "
        "metric of your own, or leave the labels out."
    )


def read_labels_of_steps(
    labels: np.ndarray, output: np.ndarray, name: str, task: Task | None = None
) -> str:
    """`read_labels` for an output whose second axis is that of steps.

    Labels are for each step or, where they have no such axis, for each sequence.
    """
    steps = output.shape[1]
    try:
        if labels.shape[1:2] == (steps,):
            return read_labels(labels, output, name, task)
        own = task
        if task is not None and task.axis > 0:  # the last step has one axis less
            own = replace(task, axis=task.axis - 1)
        return read_labels(labels, output[:, -1], name, own) + _LAST_STEP
    except InputError as error:
        raise InputError(
            f"{error} The samples are sequences: labels are for each step, with the steps "
            f"({steps} here) on their second axis, or for each sequence, without this axis."
        ) from error


def of_last_step(reading: str) -> bool:
    """Whether labels are for whole sequences."""
    return reading.endswith(_LAST_STEP)


def of_steps(reading: str) -> str:
    """The way to read labels for the steps that they are of."""
    return reading.removesuffix(_LAST_STEP)


_EXPECTED = {
    Kind.CLASSIFICATION: "expected class ids (integers, without the axis of the classes) or "
    "one-hot rows (the output's shape)",
    Kind.MULTILABEL: "expected zeros and ones of the output's shape",
    Kind.BINARY: "expected zeros and ones of the output's shape",
    **dict.fromkeys(_NUMBERS, "expected numbers of the output's shape"),
    Kind.DETECTION: "labels of boxes have no metric here but one of your own",
}


def _read(
    labels: np.ndarray, output: np.ndarray, task: Task | None, declared: Kind | None
) -> str | None:
    integers = labels.dtype.kind in "iub"
    numbers = labels.dtype.kind in "iubf"
    same = _same_places(labels, output)
    if not numbers or declared is Kind.DETECTION:
        return None
    if declared in _NUMBERS:
        return REGRESSION if same else None
    if declared in (Kind.MULTILABEL, Kind.BINARY):
        if not same or not zeros_and_ones(labels[~(no_answer(labels) | missing(labels))]):
            return None
        return BINARY if one_value(output) else MULTI_LABEL
    if not is_floating(output.dtype):
        return IDS if output.dtype.kind in "iub" and integers and same else None
    if declared is Kind.CLASSIFICATION and same and zeros_and_ones(labels):
        return ONE_HOT
    # Keras takes numbers of classes as floats, too.
    classes = task is not None and task.kind is Kind.CLASSIFICATION
    ids = integers or (classes and bool((labels == np.rint(labels)).all()))
    axis = _class_axis(labels, output, task) if ids and not same else None
    if axis is not None:
        return CLASS_IDS if output.ndim == 2 else f"{_ALONG}{axis}"
    if not same or declared is Kind.CLASSIFICATION:
        return None
    return VALUES if one_value(output) else ROWS


def class_axis(reading: str, rank: int) -> int:
    """The axis of the classes for a reading of class ids, counted from the front."""
    return int(reading.removeprefix(_ALONG)) if reading.startswith(_ALONG) else rank - 1


def is_class_ids(reading: str) -> bool:
    """Whether labels are ids of classes, and the output holds a score for each class."""
    return reading == CLASS_IDS or reading.startswith(_ALONG)


# Labels of pixels and tokens that belong to no class: any number below 0, and 255 as in images.
_IGNORED_BYTE = 255


def no_class(ids: np.ndarray, classes: int) -> np.ndarray:
    """Where labels of pixels or tokens name no class, such as padding."""
    return (ids < 0) | ((ids == _IGNORED_BYTE) & (ids >= classes))


# Labels of neither yes nor no: frameworks leave them out of losses.
_NO_ANSWERS = (-100, _IGNORED_BYTE)


def no_answer(labels: np.ndarray) -> np.ndarray:
    """Where integers that otherwise are zeros and ones say neither yes nor no."""
    unread = np.isin(labels, _NO_ANSWERS)
    several = labels.dtype.kind in "iu" and labels.ndim > 1
    return unread if several and zeros_and_ones(labels[~unread]) else np.zeros_like(unread)


def missing(labels: np.ndarray) -> np.ndarray:
    """Where labels are not known: models are compared there, but their answers are not judged."""
    return np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(labels.shape, bool)


def unread_places(reading: str, labels: np.ndarray, output: np.ndarray) -> np.ndarray | None:
    """The places of an output that its labels leave out; None if they leave out none.

    Args:
        reading: the way to read the labels.
        labels: of one batch.
        output: the reference's output.

    Returns:
        Flags of the output's shape, with an axis of 1 in place of that of the classes.
    """
    if is_class_ids(reading) and output.ndim > 2:
        axis = class_axis(reading, output.ndim)
        shape = (*output.shape[:axis], 1, *output.shape[axis + 1 :])
        unread = no_class(labels.reshape(shape), output.shape[axis])
    elif reading == IDS and labels.dtype.kind == "i":
        unread = labels.reshape(output.shape) < 0
    elif reading in (ROWS, BINARY, MULTI_LABEL):
        unread = no_answer(labels.reshape(output.shape))
    else:
        return None
    return unread if unread.any() else None


def one_value(output: np.ndarray) -> bool:
    """Whether the output's shape has one value for each sample, and always will."""
    return all(size == 1 for size in output.shape[1:])


def zeros_and_ones(labels: np.ndarray) -> bool:
    """Whether labels hold nothing else."""
    return bool(((labels == 0) | (labels == 1)).all())


def task_of_reading(reading: str) -> Task | None:
    """What a way to read labels says of their output; None if the labels' values decide it."""
    if of_last_step(reading):
        task = task_of_reading(of_steps(reading))
        # In the whole output the axis of the steps comes before that of the classes.
        return replace(task, axis=task.axis + 1) if task is not None and task.axis > 0 else task
    if is_class_ids(reading):
        axis = int(reading.removeprefix(_ALONG)) if reading.startswith(_ALONG) else -1
        return Task(Kind.CLASSIFICATION, axis, why="its labels are class ids")
    return Task(Kind.IDS, why="its labels are ids") if reading == IDS else None


def one_hot(labels: np.ndarray) -> bool:
    """Whether each row of the last axis holds exactly one 1, among zeros."""
    return labels.shape[-1] > 1 and bool((labels.sum(axis=-1) == 1).all())


def normalized(output: np.ndarray) -> bool:
    """Whether the rows of the last axis add up to 1."""
    return bool(np.allclose(output.sum(axis=-1, dtype=np.float64), 1, atol=1e-2))


def _same_places(labels: np.ndarray, output: np.ndarray) -> bool:
    """One label for each value: the same shape, but for axes of 1 at the end."""
    return _trimmed(labels.shape) == _trimmed(output.shape)


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    end = len(shape)
    while end > 1 and shape[end - 1] == 1:
        end -= 1
    return shape[:end]


def _class_axis(labels: np.ndarray, output: np.ndarray, task: Task | None) -> int | None:
    """The axis that labels lack: the task's, the last, the first after the batch, any other."""
    preferred = [output.ndim - 1, 1, *range(2, output.ndim - 1)]
    if task is not None and task.kind is Kind.CLASSIFICATION:
        preferred = [task.axis % output.ndim]
        if task.why != DECLARED:
            preferred += [output.ndim - 1, 1]
    for axis in preferred:
        rest = output.shape[:axis] + output.shape[axis + 1 :]
        inside = 0 < axis < output.ndim and output.shape[axis] > 1
        if inside and labels.shape in (rest, (*rest, 1)):
            return axis
    return None


def _shape(array: np.ndarray) -> str:
    return f"({', '.join(['batch', *map(str, array.shape[1:])])})"
