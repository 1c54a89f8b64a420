"""A file of Keras 1 or 2 as a model of Keras 2."""

import importlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfmp.converters.intake.keras2.archive import WEIGHTS, Archive, named_by_content
from tfmp.converters.intake.keras2.configs import Changes, readable
from tfmp.converters.intake.trust import code_in_architecture, open_hdf5
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.frameworks import KerasModel
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.wording import listed

Notes = tuple[str, ...]

# Kernels that Keras turned over between Theano and TensorFlow.
_TURNED = {
    "Conv1D": ("kernel",),
    "Conv2D": ("kernel",),
    "Conv3D": ("kernel",),
    "Conv2DTranspose": ("kernel",),
    "ConvLSTM2DCell": ("kernel", "recurrent_kernel"),
}
_MOST_TURNED = 3  # layers that are named
_OLD_FOLDER = "_layer_checkpoint_dependencies"
_OF_TRAINING = "optimizer/"


def read_model(
    archive: Archive, custom_objects: Mapping[str, Any], unsafe_load: bool = False
) -> tuple[KerasModel, Notes]:
    """Reads the model, in float32.

    Args:
        archive: the file, with an architecture.
        custom_objects: classes and functions by the names that the file uses for them.
        unsafe_load: also run Python code that the file holds.

    Returns:
        The model, and notes on how it was read, for the report.

    Raises:
        InputError: tf_keras is not installed, or the file would run code of its own.
        Exception: whatever tf_keras raises for a file that it cannot read.
    """
    tf_keras = _imported(archive)
    changes: Changes = {}
    config = readable(archive, custom_objects, changes)
    foreign = None if unsafe_load else code_in_architecture(config, custom_objects)
    if foreign is not None:
        raise InputError(foreign)
    import tensorflow as tf
    from tf_keras.src.saving.legacy.saved_model import json_utils
    from tf_keras.src.saving.serialization_lib import SafeModeScope, deserialize_keras_object

    # MobileNets name this function without a module.
    known = {**gallery("tf_keras"), "relu6": tf.nn.relu6, **custom_objects}
    with hints_hidden():
        if archive.zipped:
            model = deserialize_keras_object(config, known, safe_mode=not unsafe_load)
        else:
            words = json_utils.decode(json.dumps(config))  # tuples and shapes from their JSON
            with SafeModeScope(not unsafe_load):
                model = tf_keras.models.model_from_config(words, custom_objects=known)
        load_weights(archive, model)
    return model, notes_on(archive, model, changes)


def notes_on(archive: Archive, model: KerasModel, changes: Changes | None = None) -> Notes:
    """Notes on how a model of Keras 2 got the weights of a file."""
    import tf_keras

    turned = [layer.name for layer in model._flatten_layers() if type(layer).__name__ in _TURNED]
    unsaid = not archive.zipped and not archive.tree and archive.backend is None
    assumed = []
    if turned and unsaid:
        assumed.append(
            "the file does not say which backend computed its weights: read as TensorFlow's. If "
            "Theano did, write backend = 'theano' among the file's attributes (h5py), which turns "
            f"the kernels of {listed(turned, _MOST_TURNED)}"
        )
    version = f"Keras {archive.version}" if archive.version else "an early Keras"
    note = f"written by {version}, read by tf_keras {tf_keras.__version__}"
    told = (sentence.format(", ".join(names)) for sentence, names in (changes or {}).items())
    return (note, *assumed, *told)


def load_weights(archive: Archive, model: KerasModel) -> None:
    """Loads the weights of an HDF5 file into a model of Keras 2.

    Raises:
        Exception: whatever tf_keras raises for weights of another model.
    """
    with hints_hidden(), temporary_folder() as folder, named_by_content(archive) as path:
        if archive.tree or archive.zipped:
            moved = folder / "moved.weights.h5"
            _copy_weights(path / WEIGHTS if archive.zipped else path, moved)
            model.load_weights(str(moved))
        else:
            model.load_weights(str(path))
    if archive.backend == "theano":
        _turn_kernels(model)


@contextmanager
def hints_hidden() -> Iterator[None]:
    """Hides what is said of optimizers, shapes and initializers, which play no part."""
    loggers = [logging.getLogger(name) for name in ("absl", "tensorflow")]  # absl is Keras 2's own
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _imported(archive: Archive) -> Any:
    try:
        import tf_keras
    except ImportError as error:
        if error.name != "tf_keras":
            raise
        raise InputError(
            f"was written by Keras {archive.version or '1 or 2'}, which Keras 3 "
            "misreads. Install Keras 2 beside it: pip install tf_keras"
        ) from error
    return tf_keras


def gallery(library: str) -> dict[str, Any]:
    """Layer classes that the gallery of models of "keras" or "tf_keras" holds, and its files do not
    find."""
    convnext = importlib.import_module(f"{library}.src.applications.convnext")
    inception = importlib.import_module(f"{library}.src.applications.inception_resnet_v2")
    return {
        "CustomScaleLayer": inception.CustomScaleLayer,
        "LayerScale": convnext.LayerScale,
        "StochasticDepth": convnext.StochasticDepth,
    }


def _copy_weights(source: Path, target: Path) -> None:
    """Copies the layers' weights to the paths where tf_keras looks for them."""
    import h5py

    with open_hdf5(source) as old, h5py.File(target, "w") as new:
        new.create_group("vars")
        names: list[str] = []
        old.visit(names.append)
        places = _places([name.replace("\\", "/") for name in names])
        for name in names:
            place = places[name.replace("\\", "/")]
            if isinstance(old[name], h5py.Dataset) and not place.startswith(_OF_TRAINING):
                old.copy(name, new, name=place)


def _places(paths: list[str]) -> dict[str, str]:
    """The paths in an archive as today's Keras 2 names them, by their own.

    Until 2.13 a model's layers lay in a folder with the name of a private attribute, which held
    those with weights twice: they took two numbers each, dense, dense_2, dense_4.
    """
    numbers: dict[str, dict[str, list[int]]] = {}
    for path in paths:
        parts = path.split("/")
        for depth, part in enumerate(parts[:-1]):
            if part == _OLD_FOLDER:
                kind, number = _numbered(parts[depth + 1])
                kinds = numbers.setdefault("/".join(parts[: depth + 1]), {})
                kinds.setdefault(kind, []).append(number)

    def renamed(folder: str, part: str) -> str:
        kind, number = _numbered(part)
        place = sorted(set(numbers[folder][kind])).index(number)
        return f"{kind}_{place}" if place else kind

    found = {}
    for path in paths:
        parts = path.split("/")
        moved = [
            renamed("/".join(parts[:depth]), part) if depth and parts[depth - 1] == _OLD_FOLDER
            else "layers" if part == _OLD_FOLDER
            else part
            for depth, part in enumerate(parts)
        ]  # fmt: skip
        found[path] = "/".join(moved)
    return found


def _numbered(name: str) -> tuple[str, int]:
    """("dense", 2) of dense_2, and ("dense", 0) of dense."""
    kind, _, number = name.rpartition("_")
    return (kind, int(number)) if kind and number.isdecimal() else (name, 0)


def _turn_kernels(model: KerasModel) -> None:
    """Theano convolves where TensorFlow correlates: kernels are turned by half a turn."""
    for layer in model._flatten_layers():
        for name in _TURNED.get(type(layer).__name__, ()):
            kernel = getattr(layer, name)
            spatial = kernel.shape.rank - 2
            kernel.assign(kernel.numpy()[(slice(None, None, -1),) * spatial])
