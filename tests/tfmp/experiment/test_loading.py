"""Tasks: from names, files and functions, and the ones that come with tfmp."""

import json

import numpy as np
import pytest

from tfmp.experiment.arms import ARMS, check_arms
from tfmp.experiment.loading import TASKS, load_task
from tfmp.experiment.tasks import TEMPLATE, Task

X, Y = np.zeros((4, 2), "float32"), np.zeros(4, "float32")


def metric(predictions, labels):
    return 0.0


def task(**changed) -> Task:
    values = {"name": "t", "build": metric, "train": (X, Y), "test": (X, Y), "metric": metric}
    return Task(**{**values, "margin": 0.1, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"margin": 0}, r"Task\(margin=\.\.\.\) expects a finite number above 0"),
        ({"train": X}, r"expects a tuple \(x, y\) of arrays, received ndarray"),
        ({"test": (X, Y[:3])}, r"same number of samples, 1 or more; received 3, 4 samples"),
        ({"test": ({"a": X[:0]}, Y[:0])}, r"received 0 samples"),
        ({"test": (X[0, 0], Y)}, r"expects NumPy arrays .* received float32"),
    ],
)
def test_wrong_arguments(changed, message):
    with pytest.raises(ValueError, match=message):
        task(**changed)


def test_a_model_is_not_a_function():
    with pytest.raises(TypeError, match=r"Task\(build=\.\.\.\) expects a function, received int"):
        task(build=3)


def test_the_example_is_a_task(tmp_path):
    path = tmp_path / "my_example_task.py"
    path.write_text(TEMPLATE)
    found = load_task(f"{path}:task")
    assert (found.name, found.epochs, found.margin) == ("my task", 10, 0.02)
    assert found.sign == -1
    assert found.about == "Replace these made-up numbers with your own arrays."
    model = found.build()
    assert found.metric(model.predict(found.test[0], verbose=0), found.test[1]) > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digit", r"TASK expects one of digits, text, .* received 'digit'"),
        ("no_such_file.py:task", r"cannot be imported: FileNotFoundError: there is no file"),
        ("math:tasks", r"cannot be imported: AttributeError: module 'math' has no attribute 'tas"),
        ("math:pi", r"'math:pi' has to be a function; it is 3\.14\d+ of type float"),
        ("time:time", r"has to return a tfmp\.Task; it returned float"),
    ],
)
def test_what_is_no_task(text, message):
    with pytest.raises(ValueError, match=message):
        load_task(text)


@pytest.mark.parametrize("name", TASKS)
def test_a_built_in_task_fits_its_model(name):
    found = load_task(name)
    model = found.build()
    predicted = model.predict(found.test[0][:3], verbose=0)
    worst = found.metric(predicted, found.test[1][:3])
    assert np.isfinite(worst)
    assert found.about.endswith(".")
    best = found.test[1][:3]
    if predicted.shape != best.shape and predicted.shape[:-1] == best.shape:
        best = np.eye(predicted.shape[-1])[best.astype(int)] if best.dtype.kind == "i" else best
    perfect = found.metric(np.asarray(best), found.test[1][:3])
    assert found.sign * perfect > found.sign * worst


def test_arms_and_numbers():
    names = [arm.name for arm in check_arms(["mixed_float16+onnx"])]
    assert names == ["float32", "mixed_float16", "mixed_float16+onnx"]
    assert len(check_arms(ARMS)) == len(set(ARMS))
    with pytest.raises(ValueError, match=r"float32\+onnx.*; received 'float16\+onnx'"):
        check_arms(["float16+onnx"])
    found = task(margin=np.float32(0.5), epochs=np.int64(3))
    assert json.dumps([found.margin, found.epochs]) == "[0.5, 3]"
