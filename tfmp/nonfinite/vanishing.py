"""Gradients that are 0 in FP16 whatever the loss scale is, because a layer's result is wrong there.

A norm that overflows makes the quotient by it 0. No result is infinite or NaN then and no step is
skipped, but the layers before it learn nothing.
"""

from dataclasses import dataclass

import keras
import numpy as np

from tfmp.nonfinite import replay
from tfmp.nonfinite.replay import Call, CallKey, ReplayedStep
from tfmp.shared.backend import TensorTree
from tfmp.shared.numerics import FLOAT16

# Rounding to 11 bits keeps the results of sound layers within a few percent.
_WRONG = 0.5


@dataclass(frozen=True)
class Vanished:
    """Weights without a gradient in FP16.

    Attributes:
        variables: their paths.
        layer: path of the first layer whose result in FP16 is off by half and more.
    """

    variables: tuple[str, ...]
    layer: str


def vanished_gradients(
    model: keras.Model, x: TensorTree, y: TensorTree, sample_weight: TensorTree, scale: float
) -> Vanished | None:
    """The weights whose gradients are all 0 in FP16, though at this scale they would fit there.

    The batch is replayed in float32 and as it is; the model is not changed.

    Args:
        model: compiled, with layers that compute in FP16.
        x, y, sample_weight: a batch.
        scale: the loss scale.

    Returns:
        The weights; None if there are none, or if no layer's result is wrong.
    """
    step = replay.make_step(model, x, y, sample_weight)
    with replay.in_float32(list(step.root.within())):
        exact = magnitudes(step, scale)
    narrow = magnitudes(step, scale)
    lost = tuple(
        path
        for path, values in exact.items()
        if not narrow[path].any() and values.max() >= FLOAT16.smallest_normal
    )
    layer = _first_wrong_layer(step) if lost else None
    return Vanished(lost, layer) if layer else None


def magnitudes(step: ReplayedStep, scale: float) -> dict[str, np.ndarray]:
    """The magnitudes of each weight's scaled gradient, by path of the weight."""
    found = replay.gradients(step, {}, scale).weights
    return {
        variable.path: np.abs(np.asarray(keras.ops.convert_to_numpy(gradient), np.float32))
        for variable, gradient in zip(step.model.trainable_variables, found, strict=True)
        if gradient is not None and not hasattr(gradient, "indices")
    }


def _first_wrong_layer(step: ReplayedStep) -> str | None:
    with replay.in_float32(list(step.root.within())):
        exact = _results(step)
    for key, (path, values) in _results(step).items():
        _, right = exact.get(key, (path, values))
        for one, other in zip(values, right, strict=True):
            if not np.linalg.norm(one - other) <= _WRONG * np.linalg.norm(other):
                return path
    return None


def _results(step: ReplayedStep) -> dict[CallKey, tuple[str, list[np.ndarray]]]:
    """The path and the results of each call of a layer, in their order."""
    found: dict[CallKey, tuple[str, list[np.ndarray]]] = {}

    def record(call: Call) -> TensorTree:
        tensors = call.float_outputs()
        if all(map(replay.is_concrete, tensors)):
            values = [np.asarray(keras.ops.convert_to_numpy(t), np.float64) for t in tensors]
            found[call.key] = (call.node.path, values)
        return call.outputs

    replay.run(step, record)
    return found
