"""Saved Keras models: `.keras`, `.h5` and `.hdf5`, each read by the Keras that wrote it."""

import re
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from traceback import extract_tb
from zipfile import BadZipFile

from tfmp.converters.intake.architecture import with_architecture
from tfmp.converters.intake.custom_objects import CustomObjects, objects_in, operations
from tfmp.converters.intake.keras2 import (
    WEIGHTS,
    Archive,
    Config,
    gallery,
    hints_hidden,
    load_weights,
    named_by_content,
    notes_on,
    read_archive,
    read_model,
)
from tfmp.converters.intake.keras_model import from_keras, from_keras2, require_tensorflow_backend
from tfmp.converters.intake.sizes import Opening, Sizes
from tfmp.converters.intake.source import Source, reason_of, shortened
from tfmp.converters.intake.trust import (
    LAMBDA,
    REBUILT,
    SAVED_MODEL,
    parts_of,
    unknown_object,
    vocabulary_file,
)
from tfmp.converters.shared.errors import ConversionError, InputError, Refusal
from tfmp.converters.shared.frameworks import KerasModel
from tfmp.converters.shared.time_limits import read_in_time
from tfmp.shared.wording import full_disk, one_line

# Errors of reading bytes, and not of the model that they say.
_DAMAGES = (OSError, EOFError, BadZipFile, zlib.error)


def from_keras_file(path: Path, asked: Opening) -> Source:
    """Loads a saved Keras model.

    Raises:
        InputError: Keras cannot load it; the text names the class or layer at fault.
    """
    require_tensorflow_backend()
    try:
        with nullcontext() if asked.unsafe_load else read_in_time(path, path.stat().st_size):
            return _read(path, asked)
    except ConversionError as error:
        if isinstance(error.__cause__, NameError) and (found := _on_code(error.__cause__)):
            raise InputError(found.at(path)) from error
        raise
    except InputError as error:
        raise InputError(error.refusal.at(path)) from error
    except Exception as error:  # Keras raises every kind of exception here
        if full_disk(error):
            raise
        raise InputError(_refusal(error).at(path)) from error


def _read(path: Path, asked: Opening) -> Source:
    archive = read_archive(path)
    if archive.config is None or asked.architecture is not None:
        found = with_architecture(archive, asked.architecture)
        if not isinstance(found, Archive):
            return _with_weights(found, archive, asked)
        archive = found
    custom = {**objects_in(asked.custom_modules), **(asked.custom_objects or {})}
    used = _used(archive.config, custom)
    if not archive.from_keras_3:
        _require_keras_2(used)
        model, told = read_model(archive, used, asked.unsafe_load)
        return from_keras2(model, asked, path, told, archive.loss)
    model = _keras_3_model(archive, {**custom, **used}, asked.unsafe_load)
    loaded = len(model.variables)
    source = from_keras(model, asked, path, loss=archive.loss)
    if len(model.variables) > loaded:
        # Keras could not build these layers when it loaded the file, and left their weights out
        # without a word: it builds with floats, and an input may hold ids.
        _load(archive, model)
        source = from_keras(model, asked, path, loss=archive.loss)
    return source


def _with_weights(model: KerasModel, archive: Archive, sizes: Sizes) -> Source:
    """A model that the user built, with the weights of a file."""
    import keras

    new = isinstance(model, keras.Model)
    try:
        (_load if new else load_weights)(archive, model)
    except ValueError as error:
        way = "Let --architecture build the layers that were saved, in their sizes"
        found = f"its weights do not fit the model that --architecture builds ({reason_of(error)})"
        raise InputError(found, way) from error
    if new:
        return from_keras(model, sizes, archive.path)
    return from_keras2(model, sizes, archive.path, notes_on(archive, model))


def _load(archive: Archive, model: KerasModel) -> None:
    with named_by_content(archive) as named, hints_hidden():
        model.load_weights(named / WEIGHTS if archive.zipped else named)


def _keras_3_model(
    archive: Archive, custom_objects: CustomObjects, unsafe_load: bool
) -> KerasModel:
    import keras

    spelled = not archive.zipped and not archive.alone
    known = {**gallery("keras"), **(operations() if spelled else {}), **custom_objects}
    options = {"custom_objects": known, "safe_mode": not unsafe_load}
    with named_by_content(archive) as path, hints_hidden():
        if not archive.alone:
            return keras.models.load_model(path, compile=False, **options)
        model = keras.saving.deserialize_keras_object(archive.config, **options)
        model.load_weights(path)
        return model


def _require_keras_2(objects: CustomObjects) -> None:
    """Raises `InputError` for a layer of the user's that tf_keras cannot call."""
    import keras

    for name, item in objects.items():
        if isinstance(item, type) and issubclass(item, keras.Layer):
            raise InputError(
                f"Keras 2 wrote it, and class {name!r} is one for Keras 3",
                "Set TF_USE_LEGACY_KERAS=1, with which tf.keras is Keras 2, or let the class's "
                "module import tf_keras",
            )


def _used(config: Config, custom_objects: CustomObjects) -> CustomObjects:
    """The objects that an architecture names; those that modules imported from Keras are not."""
    names = set(texts_in(config))
    own = {
        name: value
        for name, value in custom_objects.items()
        if str(getattr(value, "__module__", "")).partition(".")[0] not in ("keras", "tf_keras")
    }
    return {name: own[tail] for name in names if (tail := name.rpartition(">")[2]) in own}


def texts_in(config: Config) -> Iterator[str]:
    """All texts that an architecture holds: names of classes and functions among them."""
    return (part for part in parts_of(config) if isinstance(part, str))


def _on_code(error: Exception) -> Refusal | None:
    """Why a file whose parts are code was not loaded; None for an error of another kind."""
    text = one_line(error)
    if "safe_mode=False" in text:
        return _unsafe(text)
    rebuilt = f"{REBUILT[0].upper()}{REBUILT[1:]}"
    if isinstance(error, NameError) and "Lambda" in text:
        found = f"its Lambda layer needs a name that the file does not hold ({reason_of(error)})"
        return Refusal(found, remedy=rebuilt)
    if _read_code(error):
        found = "its Lambda layer is bytecode of another Python, which only that one runs"
        return Refusal(found, remedy=rebuilt)
    if "allow_pickle" in text:
        found = "its arrays are pickled objects, which can run code when they are loaded"
        return Refusal(found, remedy="Save the model with `model.save`, which writes none")
    return None


def _read_code(error: BaseException | None) -> bool:
    """Whether Keras failed at reading bytecode: that of another Python fails in many ways."""
    while error is not None:
        if any(frame.name == "func_load" for frame in extract_tb(error.__traceback__)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _refusal(error: Exception) -> Refusal:
    """Why Keras could not load a file, by the words of its error."""
    import keras

    if (found := _on_code(error)) is not None:
        return found
    text = one_line(error)
    missing = re.search(
        r"Could not locate (?:class|function) '([^']+)'|Unknown (?:layer|object|function|"
        r"activation function|initializer|regularizer|constraint): '([^']+)'",
        text,
    )
    if missing:
        return unknown_object(repr(missing[1] or missing[2]))
    unknown = re.search(r"Unrecognized keyword arguments passed to (\w+): \{([^}]*)\}", text)
    if unknown:
        return Refusal(
            f"layer class {unknown[1]!r} does not take {shortened(unknown[2])}, as the file says",
            why=f"A newer Keras than {keras.__version__} may have written it",
            remedy="Upgrade Keras, or take the argument out of its config",
        )
    owners = re.findall(r"<class '([^']+)'> could not be deserialized", text)
    if owners and not owners[-1].startswith("keras."):
        return Refusal(
            f"class {owners[-1].rpartition('.')[2]!r} cannot be made from this file",
            why=reason_of(error),
            remedy="Let its __init__ take **kwargs for super().__init__, and give its own "
            "arguments in get_config",
        )
    if "SavedModel file does not exist" in text:
        return Refusal(
            f"its TFSMLayer runs a SavedModel that is not there ({reason_of(error)})",
            remedy="Put that folder there, or convert it itself",
        )
    damaged = isinstance(error, _DAMAGES) or "open object" in text  # an array that HDF5 lacks
    return Refusal(
        f"Keras cannot load this model ({type(error).__name__}: {reason_of(error)})",
        remedy="It is damaged: copy or save the model again"
        if damaged
        else "Name the modules of its own classes with --custom-objects, or load it in Python and "
        "pass the model to tfmp.converters.convert",
    )


def _unsafe(text: str) -> Refusal:
    """Why Keras's safe mode refused a model; only for code in the file there is a way to run it."""
    vocabulary = re.search(r"Vocabulary file: '(.*?)'", text)
    if vocabulary:
        return vocabulary_file(vocabulary[1])
    if "deserialization of a `TFSMLayer`" in text:
        return SAVED_MODEL
    if re.search(r"deserialization of a (`Lambda` layer|Python lambda)", text):
        return LAMBDA
    refused = re.sub(r" and thus it is disallowed.*", "", text)
    return Refusal(
        f"Keras does not load this model from a file: {shortened(refused)}",
        remedy="Rebuild that layer",
    )
