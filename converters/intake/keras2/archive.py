"""What a Keras file holds, found by its content and not by its name."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile, ZipFile, is_zipfile

from tfmp.converters.intake.trust import open_hdf5
from tfmp.converters.shared.errors import InputError
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.report_files import read_json

# JSON of a Keras file: dicts, lists, strings, numbers, None.
Config: TypeAlias = Any


# The version of a file that does not say it, and names its weights in the words of Keras 2.
_KERAS_2 = "2"
_KERAS_2_WEIGHTS = frozenset({"kernel", "recurrent_kernel", "depthwise_kernel", "embeddings"})

# The weights in an archive.
WEIGHTS = "model.weights.h5"

# Folders of layers in files whose weights lie under the paths of their objects.
_TREE = ("layers", "_layer_checkpoint_dependencies")


@dataclass(frozen=True)
class Archive:
    """A Keras file, read as far as no framework is needed.

    Attributes:
        path: the file.
        zipped: whether it is an archive of Keras 2.12 or later (`.keras`); else it is HDF5.
        config: the architecture; None for a file of weights.
        tree: for a file of weights, whether they lie under the paths of their objects, as
            `.weights.h5` files of Keras 2.12 and later have them; else they are listed by layer.
        version: the version of Keras that wrote it, such as "2.8.0", or "2" where only the words of
            the file tell it; None for a file of Keras 1 that lacks it.
        backend: the backend of Keras that computed the weights; None where the file lacks it.
        alone: whether it is a file of weights, and the architecture is from elsewhere.
        unversioned: whether the file lacks the version, and its words are those of Keras 2.
        loss: the loss that the model was compiled with, as JSON; None without one.
    """

    path: Path
    zipped: bool
    config: Config | None
    version: str | None
    backend: str | None = None
    tree: bool = False
    alone: bool = False
    unversioned: bool = False
    loss: Config = None

    @property
    def from_keras_3(self) -> bool:
        """Whether Keras 3 wrote the file."""
        return (self.version or "").startswith("3")


def read_archive(path: Path) -> Archive:
    """Reads the architecture and the version of a Keras file.

    Raises:
        InputError: the file is damaged, or neither HDF5 nor an archive of Keras.
    """
    try:
        return _zipped(path) if is_zipfile(path) else _hdf5(path)
    except RecursionError as error:
        raise InputError(
            "the architecture in this file is nested too deeply to be read",
            "It is damaged: copy or save the model again",
        ) from error


@contextmanager
def named_by_content(archive: Archive) -> Iterator[Path]:
    """The path of the file under a name that tells its format, as Keras goes by the name.

    An archive is unpacked, of which Keras would take all weights into memory at once. Keras takes
    a file without a version for one of Keras 1, and turns its kernels round.
    """
    path = archive.path
    if archive.zipped:
        with ZipFile(path) as parts, temporary_folder() as folder:
            parts.extractall(folder)
            for weights in folder.rglob("*.h5"):
                with open_hdf5(weights):
                    pass  # Keras reads it, and would follow where it leads
            yield folder
        return
    suffix = ".weights.h5" if archive.tree else ".h5"
    told = path.name.endswith(suffix) and path.name.endswith(".weights.h5") == archive.tree
    if told and not archive.unversioned:
        yield path
        return
    with temporary_folder() as folder:
        named = folder / f"model{suffix}"
        if archive.unversioned:
            _copy_with_version(path, named)
        else:
            os.symlink(path.resolve(), named)
        yield named


def _zipped(path: Path) -> Archive:
    try:
        with ZipFile(path) as archive:
            config = read_json(archive.read("config.json"))
            metadata = read_json(archive.read("metadata.json"))
    except (BadZipFile, KeyError, ValueError, OSError, EOFError, NotImplementedError) as error:
        raise InputError(
            f"not a .keras model: its parts cannot be read ({type(error).__name__}: {error})",
            "Copy or save the model again",
        ) from error
    version = _entry(metadata, "keras_version")
    return Archive(
        *(path, True, uncompiled(config), version if isinstance(version, str) else None),
        loss=_entry(_entry(config, "compile_config"), "loss"),
    )


def _hdf5(path: Path) -> Archive:
    with open_hdf5(path) as file:
        weights = file.get("model_weights", file)
        config = _text(file.attrs.get("model_config"))
        version = _text(file.attrs.get("keras_version", weights.attrs.get("keras_version")))
        tree = any(name.replace("\\", "/").split("/")[0] in _TREE for name in file)
        unversioned = version is None and not tree and _in_words_of_keras_2(weights)
        version = _KERAS_2 if unversioned else version
        backend = _text(file.attrs.get("backend", weights.attrs.get("backend")))
        compiled = _text(file.attrs.get("training_config"))
        if config is None and not tree and "layer_names" not in weights.attrs:
            raise InputError(
                "is HDF5, but neither a model nor weights of Keras",
                "Name a file that `model.save` wrote",
            )
    try:
        parsed = None if config is None else read_json(config)
    except ValueError as error:
        raise InputError(
            f"the architecture in this file cannot be read ({error})",
            "It is damaged: copy or save the model again",
        ) from error
    loss = None
    with suppress(ValueError, RecursionError):  # no model is refused for its loss
        loss = _entry(read_json(compiled or "null"), "loss")
    return Archive(path, False, parsed, version, backend, tree, unversioned=unversioned, loss=loss)


def _entry(config: Config, key: str) -> Config:
    return config.get(key) if isinstance(config, dict) else None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)


def rewritten(config: Config, part: Callable[[dict[str, Config]], Config]) -> Config:
    """A text in JSON with each of its dicts replaced, inner ones before those round them."""
    if isinstance(config, list):
        return [rewritten(item, part) for item in config]
    if isinstance(config, dict):
        return part({key: rewritten(value, part) for key, value in config.items()})
    return config


def uncompiled(config: Config) -> Config:
    """An architecture without losses, metrics and optimizers, which a conversion needs not."""
    return rewritten(config, lambda part: {k: v for k, v in part.items() if k != "compile_config"})


def _in_words_of_keras_2(weights: Any) -> bool:
    """Whether a group of HDF5 names its weights as Keras 2 does; Keras 1 wrote `dense_1_W`."""
    found: list[str] = []
    weights.visit(found.append)
    return any(name.rpartition("/")[2].partition(":")[0] in _KERAS_2_WEIGHTS for name in found)


def _copy_with_version(path: Path, copy: Path) -> None:
    import h5py

    shutil.copyfile(path, copy)
    with h5py.File(copy, "r+") as file:
        for group in (file, file.get("model_weights", file)):
            group.attrs["keras_version"] = _KERAS_2
