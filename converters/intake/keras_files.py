"""Saved Keras models: `.keras`, `.h5` and `.hdf5`, written by Keras 3 or Keras 2."""

import re
from pathlib import Path

from tfmp.converters.intake.custom_objects import CustomObjects
from tfmp.converters.intake.keras_model import from_keras, require_tensorflow_backend
from tfmp.converters.intake.source import Source
from tfmp.converters.shared.errors import InputError


def from_keras_file(
    path: Path, custom_objects: CustomObjects | None = None, unsafe_load: bool = False
) -> Source:
    """Loads a saved Keras model.

    Args:
        path: the file.
        custom_objects: classes and functions by the names that the file uses for them.
        unsafe_load: also run Python code that the file holds (Lambda layers).

    Raises:
        InputError: Keras cannot load it; the text names the class or layer at fault.
    """
    require_tensorflow_backend()
    import keras

    known = {**_keras2_classes(), **(custom_objects or {})}
    try:
        model = keras.models.load_model(
            path, custom_objects=known, compile=False, safe_mode=not unsafe_load
        )
    except Exception as error:  # Keras raises every kind of exception here
        raise InputError(f"{path}: {_reason(error)}") from error
    return from_keras(model, path)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "safe_mode=False" in text:
        return (
            "the model holds a Lambda layer, which is Python code that would run here. If you "
            "trust the source of the file, allow it with --unsafe-load (unsafe_load=True); "
            "else rebuild the layer as a class."
        )
    missing = re.search(
        r"Could not locate (?:class|function) '([^']+)'|Unknown (?:layer|object|function): "
        r"'([^']+)'",
        text,
    )
    if missing:
        name = missing[1] or missing[2]
        return (
            f"the model uses {name!r}, which Keras does not know. Name the module that defines it "
            "with --custom-objects package.module (custom_objects={...})."
        )
    return (
        f"Keras cannot load this model ({type(error).__name__}: {text[:300]}). If it is damaged, "
        "save it again."
    )


def _keras2_classes() -> CustomObjects:
    """Layer classes that accept arguments of Keras 2's H5 files, which Keras 3 refuses."""
    import keras

    class DepthwiseConv2D(keras.layers.DepthwiseConv2D):
        def __init__(self, *args: object, groups: int = 1, **kwargs: object) -> None:
            # Keras 2 inherited `groups` from Conv2D and wrote it, always 1.
            if groups != 1:
                raise ValueError(f"DepthwiseConv2D with groups={groups} is not a Keras layer")
            super().__init__(*args, **kwargs)

    return {"DepthwiseConv2D": DepthwiseConv2D}
