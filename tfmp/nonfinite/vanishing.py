"""Gradients that are 0 in 16 bits but not in float32: too small for the loss scale."""

from dataclasses import dataclass

import keras
import numpy as np

from tfmp.nonfinite import replay
from tfmp.nonfinite.replay import ReplayedStep
from tfmp.precision.measuring import in_float32
from tfmp.shared.backend import TensorTree


@dataclass(frozen=True)
class LostGradient:
    """The gradient of a weight, in float32 and as the model computes.

    Attributes:
        variable: path of the weight.
        values: how many of its values are not 0 in float32.
        share: the share of these that is 0 as the model computes.
        largest: the largest magnitude in float32, times the loss scale.
    """

    variable: str
    values: int
    share: float
    largest: float


def lost_gradients(
    model: keras.Model, x: TensorTree, y: TensorTree, sample_weight: TensorTree, scale: float
) -> list[LostGradient]:
    """Compares the gradients of weights in float32 with those that the model computes.

    The batch is replayed in float32 and as it is; the model is not changed.

    Args:
        model: compiled, with layers that compute in 16 bits.
        x, y, sample_weight: a batch.
        scale: the loss scale.

    Returns:
        A row for each weight with a gradient in float32.
    """
    step = replay.make_step(model, x, y, sample_weight)
    with in_float32(step.root.within()):
        exact = magnitudes(step, scale)
    narrow = magnitudes(step, scale)
    return [
        LostGradient(
            path,
            int(np.count_nonzero(values)),
            float(np.mean(narrow[path][values > 0] == 0)),
            float(values.max()),
        )
        for path, values in exact.items()
        if values.any()
    ]


def magnitudes(step: ReplayedStep, scale: float) -> dict[str, np.ndarray]:
    """The magnitudes of each weight's scaled gradient, by path of the weight."""
    found = replay.gradients(step, {}, scale).weights
    return {
        variable.path: np.abs(np.asarray(keras.ops.convert_to_numpy(gradient), np.float32))
        for variable, gradient in zip(step.model.trainable_variables, found, strict=True)
    }
