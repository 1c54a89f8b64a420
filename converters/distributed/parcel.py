"""A model and its candidates as arrays of bytes, for machines that share no disk."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfmp.converters.formats import Format, format_named
from tfmp.converters.intake import AnySource, Origin, OutputHint, Source, open_source
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.scopes import variable_names
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.converters.tflite.file import safe_names
from tfmp.shared.atomic_file import temporary_folder

# Contents by path inside a folder. Arrays, which Ray's workers read without copying them.
Files = dict[str, np.ndarray]


@dataclass(frozen=True)
class Model:
    """A reference that can be opened elsewhere, without the code that it was made by.

    It is a file of a format that is converted to, the user's own SavedModel, or a SavedModel made
    here of anything else.

    Attributes:
        files: of the model.
        entry: the model's own file among them; "" for a folder.
        origin: of the original.
        inputs: of the original, sizes that were fixed included.
        outputs: likewise.
        hints: of the original, which a SavedModel made of it has lost in part.
    """

    files: Files
    entry: str
    origin: Origin
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    hints: Mapping[str, OutputHint]


def pack_source(source: AnySource) -> Model:
    """A reference as bytes.

    Raises:
        InputError: a live model whose lookup tables cannot be taken along.
    """
    origin = source.origin
    entry = ""
    if source.file_format is not None:
        assert origin.path is not None
        entry = origin.path.name
        files = pack_file(origin.path, format_named(source.file_format))
    elif origin.format == "savedmodel" and origin.path is not None:
        files = _pack_folder(origin.path)
    else:
        assert isinstance(source, Source)
        with temporary_folder() as folder:
            _save(source, folder)
            files = _pack_folder(folder)
    return Model(files, entry, origin, source.inputs, source.outputs, source.hints)


def unpack_source(model: Model, folder: Path) -> AnySource:
    """The reference, written to `folder` and opened from there; it computes as before."""
    unpack(model.files, folder)
    shapes: dict[str, Any] = {spec.name: spec.shape for spec in model.inputs}
    if model.entry:
        opened = open_source(folder / model.entry, input_shapes=shapes)
        # A GPU runs the file itself, which lies here and not where it came from.
        return replace(opened, origin=replace(model.origin, path=folder / model.entry))
    if model.origin.format == "savedmodel" and model.origin.path is not None:
        signature = model.origin.signature
        # The driver has looked into the graph, or was told to trust it.
        saved = open_source(folder, signature=signature, input_shapes=shapes, unsafe_load=True)
        return replace(saved, origin=model.origin)
    return _load(model, folder)


def pack_file(path: Path, format: Format) -> Files:
    """A model file, with the files that belong to it."""
    paths = [path, *format.companions(path)]
    return {str(each.relative_to(path.parent)): _read(each) for each in paths if each.is_file()}


def unpack(files: Files, folder: Path) -> Path:
    """Writes files under a folder; gives the first, which the others belong to."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content.data)
    return folder / next(iter(files))


def _read(path: Path) -> np.ndarray:
    return np.fromfile(path, dtype=np.uint8)


def _pack_folder(folder: Path) -> Files:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _read(path) for path in paths}


def _save(source: Source, folder: Path) -> None:
    """Writes the traced graph with its variables: nothing of the model's own classes is needed."""
    import tensorflow as tf

    names = safe_names("in", len(source.inputs))
    signature = [
        tf.TensorSpec(spec.shape, spec.dtype, name=name)
        for name, spec in zip(names, source.inputs, strict=True)
    ]

    def serve(*tensors: Any) -> dict[str, Any]:
        results = source.graph(*tensors)
        return dict(zip(safe_names("out", len(results)), results, strict=True))

    module = tf.Module()
    module.weights = list(source.graph.graph.variables)
    function = tf.function(serve, autograph=False, input_signature=signature)
    try:
        with variable_names(module.weights):
            tf.saved_model.save(module, str(folder), signatures=function)
    except AssertionError as error:  # TensorFlow's word for a resource that is no variable
        raise InputError(
            f"model {source.name!r} looks values up in a table, which cannot be sent to Ray's "
            "workers as part of a Keras model. Export it (`model.export('folder')`) and validate "
            "against that folder."
        ) from error


def _load(model: Model, folder: Path) -> Source:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder))
    function = loaded.signatures["serving_default"]
    taken = safe_names("in", len(model.inputs))
    given = safe_names("out", len(model.outputs))

    def call(named: dict[str, Any]) -> dict[str, Any]:
        # `loaded` owns the variables; without this reference they would be freed.
        assert loaded is not None
        fed = {safe: named[spec.name] for safe, spec in zip(taken, model.inputs, strict=True)}
        results = function(**fed)
        return {spec.name: results[safe] for safe, spec in zip(given, model.outputs, strict=True)}

    source = Source.traced(model.origin, model.inputs, call, function.variables)
    return replace(source, known_hints=model.hints)
