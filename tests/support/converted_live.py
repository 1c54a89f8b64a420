"""A conversion that has never seen a file of the model."""

from typing import Any

import keras
import keras_models
import numpy as np

from tfmp.converters import convert
from tfmp.converters.elsewhere import on_tensorflow
from tfmp.converters.report import Artifact


@on_tensorflow
def converted_live(model: Any, weights: list[np.ndarray], **options: Any) -> Artifact:
    """Builds `keras_models.conv` on the backend of this process, and converts it.

    Args:
        model: of which nothing is taken: it chooses the process.
        weights: of the model.
        **options: of `convert`.
    """
    keras.backend.clear_session()
    live = keras_models.conv()
    live.set_weights(weights)
    return convert(live, **options)
