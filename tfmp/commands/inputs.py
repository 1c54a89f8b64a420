"""Inputs of the `tfmp` commands: models, and training data, from files or functions."""

import warnings
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tfmp.commands.session import import_keras
from tfmp.shared.backend import TensorTree
from tfmp.shared.commands import named_function, names_function
from tfmp.shared.wording import first_line

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from tfmp.shared.batches import TrainingData

LABELS, SAMPLE_WEIGHT = "labels", "sample_weight"

_KERAS_FILE = "a Keras model file (.keras or .h5)"
_KERAS_SUFFIXES = (".keras", ".h5", ".hdf5")

# Losses and metrics by the short names that .h5 files keep, and that Keras 3 does not read there.
_ALIASES = ("mse", "MSE", "mae", "MAE", "mape", "MAPE", "msle", "MSLE", "bce", "BCE", "kld", "KLD")

_MODEL_FORMS = (
    f"{_KERAS_FILE}, or FILE.py:function, a function without arguments that builds and compiles "
    "a model"
)

_FORMS = (
    "an .npz file with 'x' and 'y', or with an array for each model input and "
    f"{LABELS!r} (of several outputs '{LABELS}.OUTPUT' each); or FILE.py:function, which "
    "returns an iterable of (x, y) batches"
)


def load_model(path: str) -> "keras.Model":
    """The Keras model in a file.

    Raises:
        click.UsageError: the file cannot be read.
    """
    check_model_file(path)
    import_keras()
    import keras

    try:
        with warnings.catch_warnings():
            # The optimizer of a model that was compiled and not trained has no state to load.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            by_name = () if Path(path).suffix == ".keras" else _ALIASES
            losses = {name: keras.losses.get(name) for name in by_name}
            return keras.models.load_model(path, custom_objects=losses)
    except Exception as error:
        raise click.UsageError(
            f"MODEL {path!r}: {_why_unreadable(path, error)} Expected {_KERAS_FILE}. "
            + _what_to_do(error)
        ) from None


def check_model_file(path: str) -> None:
    """Accepts a file that exists and has a suffix that Keras reads.

    Raises:
        click.UsageError: it does not exist, is a folder, or has another suffix.
    """
    if path.endswith(_KERAS_SUFFIXES) and Path(path).is_file():
        return
    raise click.UsageError(
        f"MODEL {path!r}: {_why_no_file(path)}. Expected {_KERAS_FILE}; save one with "
        "model.save('model.keras')."
    )


def _why_no_file(path: str) -> str:
    if not path or not Path(path).exists():
        return "no such file"
    return "it is a folder" if Path(path).is_dir() else "an unknown suffix"


def _why_unreadable(path: str, error: Exception) -> str:
    # For a file that is not an archive, Keras says that it does not exist.
    if Path(path).suffix == ".keras" and not zipfile.is_zipfile(path):
        return "the file is not a .keras archive."
    return _sentence(error).partition(" Full object config:")[0]


def _what_to_do(error: Exception) -> str:
    if "custom" in str(error):
        return (
            "Register its classes with keras.saving.register_keras_serializable, or give a "
            "FILE.py:function in place of the file: it builds and compiles the model."
        )
    return "Save one with model.save('model.keras')."


class NamedModel:
    """A model as a user names it, loaded or built by a call, which may be in another process.

    Args:
        text: a file, or FILE.py:function or package.module:function, which builds a model.

    Attributes:
        is_function: whether it is a function.

    Raises:
        click.UsageError: there is no such file or function; in a call, the file cannot be read, or
            the function raises, or returns something else.
    """

    def __init__(self, text: str) -> None:
        self.__name__ = text
        self.is_function = is_function_name(text)
        if self.is_function:
            find_function("MODEL", text, _MODEL_FORMS)
        else:
            check_model_file(text)

    def __call__(self) -> "keras.Model":
        if not self.is_function:
            return load_model(self.__name__)
        import keras

        built = call_function("MODEL", self.__name__, _MODEL_FORMS)
        if not isinstance(built, keras.Model):
            raise click.UsageError(
                f"MODEL {self.__name__!r} has to return a keras.Model; it returned "
                f"{type(built).__name__}."
            )
        return built


def load_training_data(text: str) -> "TrainingData":
    """Samples with labels, as `tfmp.calibrate` takes them.

    Args:
        text: an .npz file, or package.module:function.

    Returns:
        A tuple (x, y) or (x, y, sample_weight), or the result of the function.

    Raises:
        click.UsageError: there is no such file or function, or it cannot be used.
    """
    path = Path(text)
    if is_function_name(text):
        return call_function("--data", text, _FORMS)
    if path.suffix.lower() != ".npz" or not path.is_file():
        raise click.UsageError(f"--data {text!r}: {_why_no_file(text)}. Expected {_FORMS}.")
    try:
        with np.load(path, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise click.UsageError(
            f"--data {text!r} cannot be read: {_sentence(error)} Write it with numpy.savez."
        ) from None
    return _split(text, arrays)


def _split(text: str, arrays: dict[str, np.ndarray]) -> tuple[TensorTree, ...]:
    if set(arrays) == {"x_train", "y_train", "x_test", "y_test"}:  # as in mnist.npz
        arrays = {"x": arrays["x_train"], "y": arrays["y_train"]}
    inputs = dict(arrays)
    if set(inputs) - {SAMPLE_WEIGHT} == {"x", "y"}:  # as Keras calls them
        inputs[LABELS] = inputs.pop("y")
    labels, weight = (_taken(text, inputs, name) for name in (LABELS, SAMPLE_WEIGHT))
    if labels is None or not inputs:
        raise click.UsageError(
            f"--data {text!r} has {', '.join(map(repr, arrays)) or 'no arrays'}; training needs "
            f"inputs and labels. Expected {_FORMS}."
        )
    x = next(iter(inputs.values())) if len(inputs) == 1 else inputs
    return (x, labels) if weight is None else (x, labels, weight)


def _taken(
    text: str, arrays: dict[str, np.ndarray], name: str
) -> np.ndarray | dict[str, np.ndarray] | None:
    """Takes an array out, or those of single outputs, which are named `name.OUTPUT`."""
    own = [each for each in arrays if each.startswith(f"{name}.")]
    if own and name in arrays:
        raise click.UsageError(
            f"--data {text!r} has {name!r} and {own[0]!r}: keep the array of all outputs, or one "
            "for each."
        )
    if own:
        return {each.removeprefix(f"{name}."): arrays.pop(each) for each in own}
    return arrays.pop(name, None)


def is_function_name(text: str) -> bool:
    """Whether a text names a function, and no file that exists."""
    return names_function(text) and not Path(text).exists()


def find_function(argument: str, text: str, forms: str) -> "Callable[[], Any]":
    """The function that a user has named.

    Args:
        argument: name of the command's argument, for the error.
        text: names the function.
        forms: all forms that the argument may have, for the error.

    Raises:
        click.UsageError: the module cannot be imported, or has no such function.
    """
    import_keras()  # the module will most likely import it, and print its messages
    try:
        return named_function(argument, text)
    except ValueError as error:
        raise click.UsageError(f"{str(error).rstrip('.')}. Expected {forms}.") from error


def call_function(argument: str, text: str, forms: str) -> Any:
    """The result of a function without arguments; see `find_function`.

    Raises:
        click.UsageError: there is no such function, or it raises.
    """
    function = find_function(argument, text, forms)
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise click.UsageError(
            f"{argument} {text!r} cannot be called: {type(error).__name__}: {_sentence(error)} "
            f"Expected {forms}."
        ) from error


def _sentence(error: BaseException) -> str:
    if "allow_pickle" in str(error):  # NumPy's advice, which would run code of the file
        return "it holds pickled objects, which could run code when loaded, or is no .npz file."
    return first_line(error).rstrip(".") + "."
