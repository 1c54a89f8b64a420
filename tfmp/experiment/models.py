"""The model that a task builds: whether the experiment can use it, and by what it is known."""

import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfmp.experiment.tasks import Task
from tfmp.shared.arguments import made_by

_IN_16_BITS = ("float16", "bfloat16")


def build(task: Task) -> keras.Model:
    """A new model with weights.

    Raises:
        TypeError, ValueError: the task's function gives something else.
    """
    model = made_by(task.build, "Task(build=...)")
    if not model.built:  # a class of the user's own, which sees its shapes with the first samples
        x = task.train[0]
        model({name: a[:1] for name, a in x.items()} if isinstance(x, Mapping) else x[:1])
    return model


def build_float32(task: Task) -> keras.Model:
    """A model that the float32 arm can train.

    Raises:
        TypeError, ValueError: it is no compiled model, computes in 16 bits, or the task's function
            gives the same model again.
    """
    model = build(task)
    if in_16_bits(model):
        raise ValueError(
            "Task(build=...) expects a function that returns a float32 model; it has layers in "
            "float16 or bfloat16. The arms set the precision: leave out dtype policies."
        )
    if task.build() is model:
        raise ValueError(
            "Task(build=...) expects a function that builds a new model with each call; it "
            "returned the same one twice, with the weights of the run before."
        )
    return model


def in_16_bits(model: keras.Model) -> bool:
    """Whether a layer with weights computes in float16 or bfloat16."""
    return any(
        layer.weights and layer.compute_dtype in _IN_16_BITS
        for layer in model._flatten_layers(include_self=False)
        if not any(layer._flatten_layers(include_self=False))  # not a model in a model
    )


def fingerprint(task: Task, model: keras.Model) -> str:
    """A short text that is another one for another model, other data or other code of the task."""
    digest = hashlib.sha256(model.to_json().encode())
    digest.update(repr(keras.saving.serialize_keras_object(model.optimizer)).encode())
    digest.update(repr(sorted(task.outputs.items())).encode())
    for function in (task.build, task.metric):
        digest.update(_source(function))
    for part in (*task.train, *task.test):
        arrays = part if isinstance(part, Mapping) else {"": part}
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _source(function: Any) -> bytes:
    """The file that defines a function: losses, layers and helpers are in it, too."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:  # an object with `__call__`
        path = inspect.getsourcefile(type(function))
    if path is None:
        return b""
    with open(path, "rb") as file:
        return file.read()
