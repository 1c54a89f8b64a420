"""What the `tfmp` commands read: a model file, and training data from a file or a function."""

import os
import sys
import warnings
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

from tfmp.commands.session import import_keras

LABELS, SAMPLE_WEIGHT = "labels", "sample_weight"

_KERAS_FILE = "expects a Keras model file (.keras or .h5)"

_FORMS = (
    f"an .npz file with one array per model input, named like the input, and {LABELS!r}; or "
    "package.module:function, which returns an iterable of (x, y) batches"
)


def load_model(path: str) -> Any:
    """The Keras model in a file.

    Raises:
        click.UsageError: it cannot be read.
    """
    if not Path(path).exists():
        raise click.UsageError(
            f"MODEL {_KERAS_FILE}, received {path!r}: no such file. "
            "Save one with model.save('model.keras')."
        )
    import_keras()
    import keras

    try:
        with warnings.catch_warnings():
            # The optimizer of a model that was compiled and not trained has no state to load.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            return keras.models.load_model(path)
    except Exception as error:
        raise click.UsageError(
            f"MODEL {_KERAS_FILE}, received {path!r}: {_why_unreadable(path, error)} "
            + _what_to_do(error)
        ) from None


def _why_unreadable(path: str, error: Exception) -> str:
    # Keras says of a file that is no archive that it is not there.
    if Path(path).suffix == ".keras" and Path(path).is_file() and not zipfile.is_zipfile(path):
        return "it is no .keras archive."
    return _first_line(error)


def _what_to_do(error: Exception) -> str:
    if "custom" in str(error):
        return (
            "Register its classes with keras.saving.register_keras_serializable; `tfmp doctor` and "
            "`tfmp profile` take package.module:function too, which builds the model."
        )
    return "Save one with model.save('model.keras')."


def load_model_or_builder(text: str) -> Any:
    """The Keras model in a file, or the function named package.module:function that builds one.

    Raises:
        click.UsageError: there is no such file or function, or it cannot be used.
    """
    module, colon, function = text.rpartition(":")
    if not (colon and module and function.isidentifier()) or Path(text).exists():
        return load_model(text)
    try:
        found = getattr(imported(module), function)
    except Exception as error:
        raise click.UsageError(
            f"MODEL {text!r} cannot be imported: {type(error).__name__}: {_first_line(error)} "
            "Expected a Keras model file (.keras or .h5), or package.module:function, which "
            "builds and compiles a model."
        ) from error
    if not callable(found):
        raise click.UsageError(
            f"MODEL {text!r} expects a function that builds and compiles a model, it is a "
            f"{type(found).__name__}."
        )
    return found


def load_or_build_model(text: str) -> Any:
    """The Keras model in a file, or the one that package.module:function builds.

    Raises:
        click.UsageError: there is none.
    """
    found = load_model_or_builder(text)
    import keras

    if isinstance(found, keras.Model):
        return found
    try:
        built = found()
    except Exception as error:
        raise click.UsageError(
            f"MODEL {text!r} cannot be called: {type(error).__name__}: {_first_line(error)} "
            "Expected a function without arguments that builds a model."
        ) from error
    if not isinstance(built, keras.Model):
        raise click.UsageError(
            f"MODEL {text!r} expects a function that returns a keras.Model, it returned "
            f"{type(built).__name__}."
        )
    return built


def load_training_data(text: str) -> Any:
    """Samples with labels, as `tfmp.calibrate` takes them.

    Args:
        text: an .npz file, or package.module:function.

    Returns:
        A tuple (x, y) or (x, y, sample_weight), or what the function returned.

    Raises:
        click.UsageError: there is no such file or function, or it cannot be used.
    """
    path = Path(text)
    module, colon, function = text.rpartition(":")
    if colon and module and function.isidentifier() and not path.exists():
        return _call(text, module, function)
    if path.suffix.lower() != ".npz" or not path.is_file():
        problem = "an unknown suffix" if path.exists() else "no such file"
        raise click.UsageError(f"--data expects {_FORMS}; received {text!r}: {problem}.")
    try:
        with np.load(path, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise click.UsageError(
            f"--data {text!r} cannot be read: {_first_line(error)} Write it with numpy.savez."
        ) from None
    return _split(text, arrays)


def _split(text: str, arrays: dict[str, np.ndarray]) -> tuple[Any, ...]:
    if LABELS not in arrays or not set(arrays) - {LABELS, SAMPLE_WEIGHT}:
        raise click.UsageError(
            f"--data expects {_FORMS}; {text!r} has {', '.join(map(repr, arrays)) or 'nothing'}. "
            "Gradients need both inputs and labels."
        )
    sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(sizes.values())) != 1 or 0 in sizes.values():
        found = ", ".join(f"{name!r} {size}" for name, size in sizes.items())
        raise click.UsageError(
            f"--data expects arrays with the same number of rows, at least 1; {text!r} has {found}."
        )
    labels = arrays.pop(LABELS)
    weight = arrays.pop(SAMPLE_WEIGHT, None)
    x = next(iter(arrays.values())) if len(arrays) == 1 else arrays
    return (x, labels) if weight is None else (x, labels, weight)


def _call(text: str, module: str, function: str) -> Any:
    try:
        return getattr(imported(module), function)()
    except Exception as error:
        raise click.UsageError(
            f"--data {text!r} cannot be called: {type(error).__name__}: {_first_line(error)} "
            f"Expected {_FORMS}."
        ) from error


def imported(module: str) -> Any:
    """A module, found in the current folder too."""
    import_keras()  # the module most likely does, aloud
    # As `python -m` does: what is here can be named.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return import_module(module)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") + "." if lines else f"{type(error).__name__}."
