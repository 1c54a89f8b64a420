"""How labels are read: by their shape, and by what is known of their output."""

from dataclasses import replace

import numpy as np

from tfmp.converters.drift import DECLARED, YES_OR_NO, Kind, Task, is_floating
from tfmp.converters.shared.errors import InputError

# Ways to read labels. None follows from values: a batch may hold ones and zeros by chance.
CLASS_IDS = "class ids"
IDS = "ids of the output itself"
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
        task: what the output means; None if it is unknown. Labels of its shape are numbers then.

    Returns:
        One of the ways above, "class ids along axis A" for answers of more than one a sample.

    Raises:
        InputError: the labels fit no reading.
    """
    declared = task.kind if task is not None and task.why == DECLARED else None
    found = None
    if labels.dtype.kind in "iubf" and declared is not Kind.DETECTION:
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


def kind_of(reading: str) -> str:
    """The kind of labels that are read in this way, in words."""
    reading = of_steps(reading)
    return CLASS_IDS if is_class_ids(reading) or reading == IDS else reading


_EXPECTED = {
    Kind.CLASSIFICATION: "expected class ids (integers, without the axis of the classes) or "
    "one-hot rows (the output's shape)",
    **dict.fromkeys(YES_OR_NO, "expected zeros and ones of the output's shape"),
    **dict.fromkeys(_NUMBERS, "expected numbers of the output's shape"),
    Kind.DETECTION: "labels of boxes have no metric here but one of your own",
}


def _read(
    labels: np.ndarray, output: np.ndarray, task: Task | None, declared: Kind | None
) -> str | None:
    kind = task.kind if task is not None else None
    same = _trimmed(labels.shape) == _trimmed(output.shape)
    if not is_floating(output.dtype):
        return IDS if output.dtype.kind in "iub" and labels.dtype.kind in "iub" and same else None
    one_value = all(size == 1 for size in output.shape[1:])
    if same and kind is Kind.CLASSIFICATION:
        return None if one_value else ONE_HOT
    if same and kind in YES_OR_NO:
        return BINARY if one_value else MULTI_LABEL
    if same:
        return REGRESSION
    # Keras takes numbers of classes as floats, too.
    ids = labels.dtype.kind in "iub" or kind is Kind.CLASSIFICATION
    axis = _class_axis(labels, output, task) if ids else None
    if axis is None or declared in (*_NUMBERS, *YES_OR_NO):
        return None
    return CLASS_IDS if output.ndim == 2 else f"{_ALONG}{axis}"


def class_axis(reading: str, rank: int) -> int:
    """The axis of the classes for a reading of class ids, counted from the front."""
    return int(reading.removeprefix(_ALONG)) if reading.startswith(_ALONG) else rank - 1


def is_class_ids(reading: str) -> bool:
    """Whether labels are ids of classes, and the output holds a score for each class."""
    return reading.startswith(CLASS_IDS)


# Labels of pixels and tokens that belong to no class: any number below 0, and 255 as in images.
_IGNORED_BYTE = 255


def no_class(ids: np.ndarray, classes: int) -> np.ndarray:
    """Where labels of pixels or tokens name no class, such as padding."""
    return (ids < 0) | ((ids == _IGNORED_BYTE) & (ids >= classes))


# Labels of neither yes nor no: frameworks leave them out of losses.
_NO_ANSWERS = (-100, _IGNORED_BYTE)


def left_out(reading: str, labels: np.ndarray) -> np.ndarray:
    """Where labels are not known (NaN), or say neither yes nor no."""
    unread = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(labels.shape, bool)
    return unread | np.isin(labels, _NO_ANSWERS) if reading == MULTI_LABEL else unread


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
    elif reading == MULTI_LABEL:
        unread = np.isin(labels.reshape(output.shape), _NO_ANSWERS)
    else:
        return None
    return unread if unread.any() else None


def task_of_reading(reading: str) -> Task | None:
    """What a way to read labels says of their output; None if it says nothing new."""
    if of_last_step(reading):
        task = task_of_reading(of_steps(reading))
        # In the whole output the axis of the steps comes before that of the classes.
        return replace(task, axis=task.axis + 1) if task is not None and task.axis > 0 else task
    if is_class_ids(reading):
        axis = class_axis(reading, 0)
        return Task(Kind.CLASSIFICATION, axis, why="its labels are class ids")
    return Task(Kind.IDS, why="its labels are ids") if reading == IDS else None


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without axes of 1 at the end."""
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
