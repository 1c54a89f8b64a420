"""Gradients that do not grow with the loss scale, because code of the model's own changes them.

A `custom_gradient` that clips what flows back, or adds to it, is written for the unscaled loss.
Next to nothing of a scaled gradient is left after the clipping and the division.
"""

import inspect
import re
import sys
from typing import Any

import keras
import numpy as np

from tfmp.nonfinite import replay
from tfmp.nonfinite.vanishing import magnitudes
from tfmp.precision import is_builtin, layer_tree
from tfmp.shared.backend import TensorTree

# Float32 is linear to seven digits; sums in another order cost a few of them.
_OFF = 0.1


def has_own_gradients(model: keras.Model) -> bool:
    """Whether a module that defines a layer of the model mentions gradients of its own."""
    layers = [node.layer for node in layer_tree.walk(model).within()]
    lambdas = [layer.function for layer in layers if isinstance(layer, keras.layers.Lambda)]
    classes = [type(layer) for layer in layers if not is_builtin(layer)]
    modules = {maker.__module__ for maker in (*lambdas, *classes)}
    sources = "".join(_source_of(name) for name in modules)
    return bool(re.search(r"custom_gradient|custom_vjp|custom_jvp", sources))


def _source_of(name: str) -> str:
    """The source of a module; in a notebook, which has no file, that of its decorated functions."""
    module = sys.modules.get(name)
    if module is None:  # the class was made by `exec`
        return ""
    parts: list[Any] = [module]
    if getattr(module, "__file__", None) is None:
        parts = [value for value in vars(module).values() if hasattr(value, "__wrapped__")]
    found = []
    for part in parts:
        try:
            found.append(inspect.getsource(part))
        except (OSError, TypeError):
            continue
    return "".join(found)


def unscalable_gradients(
    model: keras.Model, x: TensorTree, y: TensorTree, sample_weight: TensorTree, scale: float
) -> tuple[str, ...]:
    """The weights whose gradients, divided by the loss scale, are not those of the loss itself.

    The batch is replayed in float32 with and without the scale; the model is not changed.

    Args:
        model: compiled and built.
        x, y, sample_weight: a batch.
        scale: the loss scale.

    Returns:
        The paths of the weights; none of those that differ from one replay to the next anyway.
    """
    step = replay.make_step(model, x, y, sample_weight)
    with replay.in_float32(list(step.root.within())):
        plain, again = magnitudes(step, 1.0), magnitudes(step, 1.0)
        scaled = magnitudes(step, scale)
    return tuple(
        path
        for path, values in plain.items()
        if _alike(again[path], values) and not _alike(scaled[path] / scale, values)
    )


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.linalg.norm(one - other) <= _OFF * np.linalg.norm(other))
