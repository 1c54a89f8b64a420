"""Any model, file, folder or object as a `Source`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from tfmp.converters.intake.source import AnySource
from tfmp.converters.shared.errors import InputError

KERAS_SUFFIXES = (".keras", ".h5", ".hdf5")
SUFFIXES = (*KERAS_SUFFIXES, ".onnx")

_MAGIC = {
    ".keras": b"PK\x03\x04",
    ".h5": b"\x89HDF\r\n\x1a\n",
    ".hdf5": b"\x89HDF\r\n\x1a\n",
}


def open_source(
    model: Any,
    *,
    signature: str | None = None,
    several: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
    unsafe_load: bool = False,
    batch_size: int | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> AnySource:
    """Opens a model.

    Args:
        model: a built Keras model, a `tf.function` with an input signature, or the path of a
            `.keras`, `.h5`, `.hdf5` or `.onnx` file or of a SavedModel folder.
        signature: which signature of a SavedModel; see `from_saved_model`.
        several: take a SavedModel none of whose signatures is the usual one; likewise.
        custom_objects: classes and functions that a Keras file names.
        unsafe_load: run Python code that a Keras file brings along (Lambda layers).
        batch_size: fixes the first axis of every input.
        input_shapes: whole shapes, batch axis included, by input name.

    Raises:
        InputError: missing, unreadable, of an unknown kind, of unknown input shapes, or an option
            that does not go with it.
        ConversionError: the model's code fails while it is traced.
    """
    path = Path(model) if isinstance(model, str | Path) else None
    if path is not None:
        check_model_file(path)
    if signature is not None and not (path is not None and path.is_dir()):
        raise InputError(
            f"signature {signature!r} was asked for, but only a SavedModel folder has signatures. "
            "Leave --signature out."
        )
    if path is not None and path.suffix.lower() == ".onnx":
        from tfmp.converters.intake.onnx_file import from_onnx

        return from_onnx(path, batch_size, input_shapes)
    if path is None:
        source = _live(model)
    else:
        source = _from_path(path, signature, several, custom_objects, unsafe_load)
    return source.pinned(batch_size, input_shapes)


def _from_path(
    path: Path,
    signature: str | None,
    several: bool,
    custom_objects: Mapping[str, Any] | None,
    unsafe_load: bool,
) -> Any:
    if path.is_dir():
        from tfmp.converters.intake.tensorflow import from_saved_model

        return from_saved_model(path, signature, several)
    from tfmp.converters.intake.keras_files import from_keras_file

    return from_keras_file(path, custom_objects, unsafe_load)


def _live(model: Any) -> Any:
    from tfmp.converters.intake.keras_model import from_keras, require_tensorflow_backend
    from tfmp.converters.intake.tensorflow import from_function, is_function

    require_tensorflow_backend()
    import keras

    if isinstance(model, keras.Model):
        return from_keras(model)
    if is_function(model):
        return from_function(model)
    raise InputError(
        f"expected a Keras model, a tf.function or a path, received {type(model).__name__}. Pass "
        f"a built keras.Model, a SavedModel folder, or a file ending in {', '.join(SUFFIXES)}."
    )


def check_model_file(path: Path) -> None:
    """Refuses a path that cannot be a saved model, without importing a framework.

    Raises:
        InputError: missing, unreadable, empty, of an unknown suffix, or not what its suffix says.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file. Check the path of the model.")
    if path.is_dir():
        if not (path / "saved_model.pb").is_file():
            raise InputError(
                f"{path}: a folder without saved_model.pb is no SavedModel. Name a SavedModel "
                f"folder, or a file ending in {', '.join(SUFFIXES)}."
            )
        if not (path / "saved_model.pb").stat().st_size:
            raise InputError(f"{path}: its saved_model.pb is empty. Save the model again.")
        return
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: expected a model file ending in {', '.join(SUFFIXES)} or a SavedModel "
            f"folder, received suffix {path.suffix!r}. Save the model with "
            "`model.save('model.keras')`."
        )
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Check its rights.") from error
    if not head or not head.startswith(_MAGIC.get(suffix, b"")):
        found = f"starts with {head!r}" if head else "is empty"
        raise InputError(
            f"{path}: not a {suffix} model: it {found}. It may be truncated or misnamed; "
            "save the model again."
        )
    if suffix == ".keras" and not is_zipfile(path):
        raise InputError(
            f"{path}: not a .keras model: its end is missing, with the list of what is in it. Copy "
            "or save the model again."
        )
