"""What outputs mean: as declared, and as losses, activations, names and shapes tell."""

import pytest

from tfmp.converters.drift.tasks import (
    Kind,
    Task,
    check_task,
    infer_task,
    read_tasks,
)
from tfmp.converters.intake import OutputHint
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("logits=classification", ("logits", Task(Kind.CLASSIFICATION))),
        ("mask = classification:axis=1", ("mask", Task(Kind.CLASSIFICATION, axis=1))),
        ("out=detection:columns=0-3", ("out", Task(Kind.DETECTION, columns=(0, 1, 2, 3)))),
        ("out=detection:columns=1,0,3,2", ("out", Task(Kind.DETECTION, columns=(1, 0, 3, 2)))),
        ("y=Regression", ("y", Task(Kind.REGRESSION))),
        ("y= Detection : axis = 1, columns=0-3", ("y", Task(Kind.DETECTION, 1, (0, 1, 2, 3)))),
        ("y=reconstruction:axis=-3", ("y", Task(Kind.RECONSTRUCTION, axis=-3))),
        ("y=angle", ("y", Task(Kind.ANGLE, period=360))),
        ("y=angle:period=6.2832", ("y", Task(Kind.ANGLE, period=6.2832))),
        ("y=quaternion:axis=1", ("y", Task(Kind.QUATERNION, axis=1))),
        ("y=quaternion:columns=3-6", ("y", Task(Kind.QUATERNION, columns=(3, 4, 5, 6)))),
    ],
)
def test_declared(text, expected):
    output, task = Task.parse(text)
    assert (output, task) == expected
    assert Task.of(str(task), output) == task


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("logits", "expected OUTPUT=KIND, such as logits=classification"),
        ("=ids", "expected OUTPUT=KIND"),
        ("y=classify", "'classify' is no kind of output; expected one of classification, multi"),
        ("y=classification:axis=0", "'axis=0' cannot be read; expected axis=NUMBER"),
        ("y=classification:axes=1", "'axes=1' cannot be read"),
        ("y=classification:axis", "'axis' cannot be read"),
        ("y=regression:columns=0-3", "columns are those of boxes, quaternions or angles"),
        ("y=detection:columns=3-1", "'columns=3-1' cannot be read"),
        ("y=regression:period=360", "a period is that of an angle, and the kind is regression"),
        ("y=angle:period=0", "'period=0' cannot be read"),
        ("y=angle:period=1.2.3", "'period=1.2.3' cannot be read"),
        ("y=detection:columns=0-999999999", "'columns=0-999999999' cannot be read"),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(InputError, match=message):
        Task.parse(text)


@pytest.mark.parametrize(
    ("task", "shape", "message"),
    [
        ("classification:axis=3", (None, 4, 4), "axis=3 is not one of its axes"),
        ("classification:axis=-3", (None, 4, 4), "axis=-3 is not one of its axes"),
        ("detection:columns=2-5", (None, 10, 5), "it has no column 5"),
        ("detection:columns=0-2", (None, 10, 5), "a box has four columns, received 3"),
        ("quaternion", (None, 7), "a quaternion has four columns, received 7. Name the"),
        ("quaternion:columns=3-5", (None, 7), "a quaternion has four columns, received 3"),
    ],
)
def test_what_does_not_fit_its_output(task, shape, message):
    with pytest.raises(InputError, match=message):
        check_task(Task.of(task, "y"), TensorSpec("y", shape, "float32"))


@pytest.mark.parametrize(
    ("task", "dtype", "message"),
    [
        ("classification", "int64", "its values are int64.*Declare ids"),
        ("regression", "text", "compared by equality, and regression reads amounts"),
        ("binary", "bool", "binary reads scores that are no whole numbers"),
        ("regression", "bool", "regression reads amounts"),
    ],
)
def test_what_does_not_fit_its_values(task, dtype, message):
    with pytest.raises(InputError, match=message):
        check_task(Task.of(task, "y"), TensorSpec("y", (None, 4), dtype))
    check_task(Task.of("ids", "y"), TensorSpec("y", (None, 4), dtype))
    check_task(Task.of("reconstruction", "y"), TensorSpec("y", (None, 4, 4, 3), "uint8"))


def test_a_detection_has_rows():
    with pytest.raises(InputError, match="a detection has a row for each box"):
        check_task(Task.of("detection", "y"), TensorSpec("y", (None,), "float32"))
    spec = TensorSpec("y", (None, 6, 100), "float32")
    check_task(Task.of("detection:axis=1,columns=0-3", "y"), spec)
    with pytest.raises(InputError, match="it has no column 6; that axis has 6"):
        check_task(Task.of("detection:axis=1,columns=6-9", "y"), spec)


def test_a_dict_of_tasks():
    assert read_tasks({"a": "ids", "b": Task(Kind.OTHER)})["a"].kind is Kind.IDS
    assert read_tasks(None) == {}
    with pytest.raises(InputError, match="expected a dict of a kind by output name"):
        read_tasks("logits=ids")
    with pytest.raises(InputError, match="expected a text such as 'regression', received 3"):
        read_tasks({"a": 3})


def kind(name, shape, loss=None, activation=None, dtype="float32"):
    hint = OutputHint(loss=loss, activation=activation)
    task = infer_task(name, dtype, shape, hint)
    return task.kind if task else None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # The loss says more than the activation, and this more than the name.
        (("embedding", (None, 8), "mse", "linear"), Kind.REGRESSION),
        (("embedding", (None, 8), "mse", "sigmoid"), Kind.REGRESSION),
        (("embedding", (None, 8), "mse", "softmax"), Kind.CLASSIFICATION),
        (("embedding", (None, 8), None, "softmax"), Kind.CLASSIFICATION),
        (("y", (None, 8), "sparse_categorical_crossentropy"), Kind.CLASSIFICATION),
        (("y", (None, 8), "binary_crossentropy"), Kind.MULTILABEL),
        (("y", (None, 1), "binary_crossentropy"), Kind.BINARY),
        (("y", (None,), None, "sigmoid"), Kind.BINARY),
        (("y", (None, 9, 1), None, "sigmoid"), Kind.MULTILABEL),
        (("y", (None, 8), "cosine_similarity"), Kind.EMBEDDING),
        (("classLogits", (None, 8)), Kind.CLASSIFICATION),
        (("start_logits", (None, 8)), Kind.CLASSIFICATION),
        (("logits", (None, 1)), Kind.BINARY),
        (("logit", (None, 1)), None),
        (("sentence_embedding", (None, 8)), Kind.EMBEDDING),
        (("detection_scores", (None, 20)), Kind.MULTILABEL),
        # One class on the last axis is no choice between classes.
        (("mask_logits", (None, 8, 8, 1)), Kind.MULTILABEL),
        (("mask_logits", (None, 8, 8, 3)), Kind.CLASSIFICATION),
        # Words that people choose say nothing.
        (("mask", (None, 8, 8, 3)), None),
        (("class_index", (None, 1)), None),
        (("temperature", (None, 1)), None),
        (("dense_3", (None, 8)), None),
        (("catalogits", (None, 8)), None),
        (("y", (None, 8), "my_own_loss"), None),
        (("logits", (None, 8), None, None, "int64"), None),
        (("image", (None, 8, 8, 3), None, None, "uint8"), None),
        (("sequences_scores", (None, 8)), None),
    ],
)
def test_inferred(arguments, expected):
    assert kind(*arguments) is expected
