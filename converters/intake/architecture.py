"""The architecture for a file of weights, or in place of the one that a file has."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfmp.converters.intake.keras2 import Archive, uncompiled
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.frameworks import KerasModel
from tfmp.converters.shared.user_functions import import_function
from tfmp.shared.arguments import is_keras2
from tfmp.shared.report_files import read_json
from tfmp.shared.wording import one_line

# A JSON file of `model.to_json()`, "FILE.py:function", or a function that builds a model.
Architecture = str | Path | Callable[[], Any]

_WAYS = (
    "Name what builds the model with --architecture: a JSON file of `model.to_json()`, or a "
    "function FILE.py:function that returns the model"
)


def check_architecture(architecture: Architecture | None) -> None:
    """Raises `InputError` for a text that is neither a JSON file nor a function's name."""
    if architecture is None or callable(architecture):
        return
    if not Path(architecture).is_file() and not all(str(architecture).partition(":")):
        found = f"architecture {str(architecture)!r} is neither a file nor FILE.py:function"
        raise InputError(found, _WAYS)


def with_architecture(archive: Archive, architecture: Architecture | None) -> Archive | KerasModel:
    """The archive with an architecture from a JSON file, or the model that a function built.

    Args:
        archive: a file of weights.
        architecture: None for the JSON file beside the weights.

    Raises:
        InputError: there is no architecture, or it cannot be read or built.
    """
    if architecture is None:
        architecture = _beside(archive.path)
    if not callable(architecture) and Path(architecture).is_file():
        return _from_json(archive, Path(architecture))
    return _built(architecture)


def architecture_file(path: Path, architecture: Architecture | None) -> Path | None:
    """The JSON file that a model's architecture may be read from; None if there is no such file."""
    if callable(architecture):
        return None
    file = _named_alike(path) if architecture is None else Path(architecture)
    return file if _is_model(file) else None


def _named_alike(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(path.suffix).removesuffix(".weights") + ".json")


def _beside(path: Path) -> Path:
    """The JSON file with the name of the weights."""
    beside = _named_alike(path)
    if beside.is_file():
        return beside
    others = [found.name for found in sorted(path.parent.glob("*.json")) if _is_model(found)]
    hint = f". There is {others[0]} beside it" if others else ""
    raise InputError(
        "holds weights without an architecture (`save_weights`), so there is no model in it",
        f"{_WAYS}{hint}",
    )


def _config(path: Path) -> Any:
    """What a JSON file holds; the result of `to_json()` is often dumped as JSON once more."""
    held = read_json(path.read_text(encoding="utf-8"))
    return read_json(held) if isinstance(held, str) else held


def _is_model(path: Path) -> bool:
    try:
        config = _config(path)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and {"class_name", "config"} <= set(config)


def _from_json(archive: Archive, path: Path) -> Archive:
    if not _is_model(path):
        raise InputError(
            f"architecture {path}: is not what `model.to_json()` writes",
            "Save the model's architecture again, or name a function that builds the model",
        )
    config = uncompiled(_config(path))
    # Keras 3 names modules and no version.
    version = config.get("keras_version") or ("3" if "module" in config else archive.version)
    return replace(archive, config=config, version=version, alone=True)


def _built(architecture: Any) -> KerasModel:
    """The model that a function of the user's builds."""
    if callable(architecture):
        build, what = architecture, getattr(architecture, "__name__", "architecture")
    else:
        module, _, function = str(architecture).partition(":")
        what = f"architecture {str(architecture)!r}"
        build = import_function(what, module, function)
    try:
        model = build()
    except Exception as error:  # so may a user's function
        raise InputError(
            f"{what}: failed ({type(error).__name__}: {one_line(error)[:500]})",
            "It is called without arguments and returns the built model",
        ) from error
    import keras

    if not (isinstance(model, keras.Model) or is_keras2(model)):
        raise InputError(
            f"{what}: returned {type(model).__name__}, expected a built model of Keras 3 or of "
            "tf_keras."
        )
    return model
