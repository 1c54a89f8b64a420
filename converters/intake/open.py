"""Any model, file, folder or object as a `Source`."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard
from zipfile import BadZipFile, ZipFile, is_zipfile

from tfmp.converters.intake.architecture import architecture_file, check_architecture
from tfmp.converters.intake.sizes import Opening, Sizes
from tfmp.converters.intake.source import AnySource, OnnxSource, Source
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import check_name, check_no_pointer
from tfmp.converters.shared.options import check_count, check_flag
from tfmp.shared.arguments import is_keras2
from tfmp.shared.framework_start import held_back, import_tensorflow
from tfmp.shared.report_files import read_json

# A live Keras model, a `tf.function`, or a path; where a request is taken, a `ModelRequest` too.
Model: TypeAlias = Any

KERAS_SUFFIXES = (".keras", ".h5", ".hdf5", ".h5f")
SUFFIXES = (*KERAS_SUFFIXES, ".onnx")

# Files in the folder of a SavedModel.
_PARTS = (".pb", ".index", ".data-00000-of-00001")

# An address, as `Path` leaves it.
_URL = re.compile(r"\w{2,}:/")

_ZIP_MAGIC = b"PK\x03\x04"
_KERAS_MAGIC = (_ZIP_MAGIC, b"\x89HDF\r\n\x1a\n")


@dataclass(frozen=True)
class ModelRequest(Opening):
    """A model that is not open yet, and the arguments for opening it, its sizes among them.

    Attributes:
        model: the model; see `open_source`.
    """

    model: Model

    @property
    def path(self) -> Path | None:
        """The file or folder that is asked for; None for a live model."""
        return Path(self.model) if isinstance(self.model, str | Path) else None

    @property
    def files(self) -> tuple[Path, ...]:
        """The model's file or folder, and the file of its architecture if it has one."""
        if self.path is None:
            return ()
        beside = architecture_file(self.path, self.architecture)
        return (self.path,) if beside is None else (self.path, beside)

    def check(self) -> None:
        """Raises the `InputError`s of `open` that take no framework to find."""
        check_flag("unsafe_load", self.unsafe_load)
        if self.batch_size is not None:
            check_count("batch_size (--batch)", self.batch_size)
        if self.path is not None:
            check_model_file(self.path)
        if self.signature is not None and not (self.path is not None and self.path.is_dir()):
            raise InputError(
                f"signature {self.signature!r} was asked for, but only a SavedModel folder has "
                "signatures",
                "Leave --signature out",
            )
        check_architecture(self.architecture)
        weights = self.path is not None and self.path.suffix.lower() in KERAS_SUFFIXES
        if self.architecture is not None and not weights:
            raise InputError(
                "an architecture was given, but only Keras files have one of their own",
                "Leave --architecture out",
            )

    def open(self) -> AnySource:
        """Opens the model; see `open_source` for its errors."""
        self.check()
        source = self._opened()
        return replace(source, origin=replace(source.origin, trusted=self.unsafe_load))

    def _opened(self) -> AnySource:
        if self.path is not None and self.path.suffix.lower() == ".onnx":
            from tfmp.converters.intake.onnx_file import from_onnx

            return from_onnx(self.path, self)
        source = _live(self.model, self) if self.path is None else self._saved(self.path)
        return replace(source, layout=self.layout(source.layout, source.inputs, source.outputs))

    def _saved(self, path: Path) -> Source:
        if self.lean:
            import_tensorflow()
        if path.is_dir():
            from tfmp.converters.intake.tensorflow import from_saved_model

            return from_saved_model(path, self)
        from tfmp.converters.intake.keras_files import from_keras_file

        return from_keras_file(path, self)


# The arguments for opening a model that users give.
LOADING = tuple(
    item.name
    for item in fields(ModelRequest)
    if item.name not in ("model", "all_signatures", "lean", "whole_numbers")
)


def open_source(model: Model, **options: Any) -> AnySource:
    """Opens a model.

    Args:
        model: a built model of Keras or tf_keras, a `tf.function` with an input signature, or the
            path of a `.keras`, `.h5`, `.hdf5` or `.onnx` file or of a SavedModel folder.
        **options: the other fields of `ModelRequest`.

    Raises:
        InputError: missing, unreadable, of an unknown kind, of unknown input shapes, or an option
            that does not go with it.
        ConversionError: the model's code fails while it is traced.
    """
    return ModelRequest(model, **options).open()


def is_open(model: object) -> TypeGuard[AnySource]:
    """Whether a model is open: a result of `open_source`."""
    return isinstance(model, Source | OnnxSource)


def path_of(model: Model) -> Path | None:
    """The file or folder that a model was loaded from, or is asked for at; None for a live one."""
    if is_open(model):
        return model.origin.path
    return request_of(model).path


def request_of(model: Model) -> ModelRequest:
    """A model as a request for it."""
    return model if isinstance(model, ModelRequest) else ModelRequest(model)


def with_loading(model: Model, options: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    """A model with those keywords that say how it is loaded, and the rest of the keywords.

    Raises:
        InputError: the model is open already.
    """
    loading = {name: value for name, value in options.items() if name in LOADING}
    if loading and is_open(model):
        raise InputError(
            f"{', '.join(loading)}: the model is open already", "Pass them to open_source"
        )
    rest = {name: value for name, value in options.items() if name not in LOADING}
    return replace(request_of(model), **loading) if loading else model, rest


def _live(model: Model, sizes: Sizes) -> Source:
    from tfmp.converters.intake.keras_model import (
        from_keras,
        from_keras2,
        require_tensorflow_backend,
    )
    from tfmp.converters.intake.tensorflow import from_function, is_function

    require_tensorflow_backend()
    import keras

    if isinstance(model, keras.Model):
        return from_keras(model, sizes, loss=model.loss)
    if is_keras2(model):
        return from_keras2(model, sizes, loss=getattr(model, "loss", None))
    if is_function(model):
        return from_function(model, sizes)
    raise InputError(
        f"expected a Keras model, a tf.function or a path, received {type(model).__name__}",
        f"Pass a built keras.Model, a SavedModel folder, or a file ending in {', '.join(SUFFIXES)}",
    )


# The next step by how a file of another kind begins.
_BEGINNINGS = {
    b"<": "It is a web page: download the file that the page is about.",
    b"\x80": "It is a pickle: load it where it was written, and save with `model.save`.",
}

_SAVE = "Save the model with `model.save('model.keras')`."
_REBUILD = "It holds no model: load it into one in Python, and save that with `model.save`."

_UNPACK = "It is an archive: unpack it, and name the folder or the file in it."
_EXPORT = "Export the PyTorch model with `torch.onnx.export`."

# The next step by the suffix of a file that is no model.
_NEXT = {
    ".tflite": (
        "It is converted already, and no reference: name the model that it was made from, as in "
        "`tfmp-convert validate MODEL FILE.tflite`."
    ),
    **dict.fromkeys((".ckpt", ".index", ".meta", ".json", ".yaml"), _REBUILD),
    **dict.fromkeys((".gz", ".tar", ".tgz", ".zip"), _UNPACK),
    **dict.fromkeys((".pt", ".pth"), _EXPORT),
    ".mlmodel": "It is a model of Core ML: name the model that it was made from.",
}


# Nodes of TensorFlow 1 that are read by nobody and are no results.
_NO_RESULTS = ("Assert", "Assign", "Const", "NoOp", "Placeholder")
# Nodes that nobody reads and that are named; graphs that were trained have hundreds.
_MOST_LAST = 8

# The next step by the "format" that a JSON file of TensorFlow.js gives.
_FROM_JS = {
    "layers-model": (
        "It is a model of TensorFlow.js. Make it one of Keras: `tensorflowjs_converter "
        "--input_format=tfjs_layers_model --output_format=keras model.json model.h5`."
    ),
    "graph-model": (
        "It is a graph of TensorFlow.js. Make it a SavedModel: pip install tfjs-graph-converter, "
        "then `tfjs_graph_converter --output_format=tf_saved_model FOLDER-OF-MODEL.JSON OUTPUT`."
    ),
}


def _frozen(path: Path) -> str:
    """How to open a graph of TensorFlow 1, by the nodes that nobody reads."""
    with held_back():
        from google.protobuf.message import DecodeError
        from tensorflow.core.framework.graph_pb2 import GraphDef

    outputs = ["OUTPUT"]
    with suppress(OSError, DecodeError):
        nodes = GraphDef.FromString(path.read_bytes()).node
        read = {name.removeprefix("^").partition(":")[0] for node in nodes for name in node.input}
        last = [node for node in nodes if node.name not in read and node.op not in _NO_RESULTS]
        outputs = [node.name for node in last[-_MOST_LAST:]] or outputs
        if any(node.op in ("Variable", "VariableV2", "VarHandleOp") for node in nodes):
            return (
                "Its weights are in a checkpoint. Freeze both: `python -m "
                f"tensorflow.python.tools.freeze_graph --input_binary --input_graph={path} "
                "--input_checkpoint=CHECKPOINT --output_graph=frozen.pb "
                f"--output_node_names={','.join(outputs)}`."
            )
    return (
        "A graph of TensorFlow 1 does not tell its outputs. Choose them in Python among its nodes "
        "(here those that nobody reads), and pass `model` to tfmp.converters.convert: `outputs = "
        f"{outputs}; graph = tf.compat.v1.graph_util.extract_sub_graph(tf.compat.v1.GraphDef."
        f"FromString(tf.io.read_file({str(path)!r}).numpy()), outputs); inputs = [node.name + ':0' "
        "for node in graph.node if node.op == 'Placeholder']; model = tf.compat.v1.wrap_function("
        "lambda: tf.graph_util.import_graph_def(graph, name=''), []).prune(inputs, [name + ':0' "
        "for name in outputs])`"
    )


def _next_step(path: Path, otherwise: str) -> str:
    """What to do with a file of another kind, which its content tells."""
    if path.suffix.lower() == ".pb":
        return _frozen(path)
    with suppress(OSError, ValueError), path.open("rb") as file:
        head = file.read(4)
        otherwise = next((way for b, way in _BEGINNINGS.items() if head.startswith(b)), otherwise)
        if head[:1] in (b"{", b'"'):
            if architecture_file(path, path) is not None:
                return f"It lacks weights: name their file, and this with --architecture {path}"
            held = read_json(path.read_text(encoding="utf-8"))
            return _FROM_JS.get(str(held.get("format") if isinstance(held, dict) else ""), _REBUILD)
    return otherwise


def check_model_file(path: Path) -> None:
    """Refuses a path that cannot be a saved model, without importing a framework.

    Raises:
        InputError: the file is missing, unreadable or empty, its suffix is unknown or wrong, or its
            name is no text.
    """
    check_name(path, "Rename it.")
    if not path.exists():
        if _URL.match(str(path)):
            told = str(path).replace(":/", "://", 1)
            raise InputError("is an address, and no file", "Download it first", where=told)
        raise InputError("no such file", "Check the path of the model", where=path)
    if path.is_dir():
        if not (path / "saved_model.pb").is_file():
            way = f"Name a SavedModel folder, or a file ending in {', '.join(SUFFIXES)}"
            versions = [part.parent for part in path.glob("*/saved_model.pb")]
            if versions:
                newest = max(versions, key=lambda folder: (len(folder.name), folder.name))
                way = f"There is one inside: name {newest}"
            found = "a folder without saved_model.pb is no SavedModel"
            raise InputError(found, way, where=path)
        for part in (path / "saved_model.pb", *path.glob("variables/*")):
            check_no_pointer(part)
        if not (path / "saved_model.pb").stat().st_size:
            found = "its saved_model.pb is empty"
            raise InputError(found, "Save the model again", where=path)
        return
    check_no_pointer(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        whole = path.parent.parent if path.parent.name == "variables" else path.parent
        if suffix in _PARTS and (whole / "saved_model.pb").is_file():
            raise InputError("is a part of a SavedModel", f"Name its folder, {whole}", where=path)
        found = (
            f"expected a model file ending in {', '.join(SUFFIXES)} or a SavedModel folder, "
            f"received suffix {path.suffix!r}"
        )
        raise InputError(found, _next_step(path, _NEXT.get(suffix, _SAVE)), where=path)
    if not path.is_file():
        way = "Write the model to a file"
        raise InputError("is a device or a pipe", way, where=path)
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", "Check its rights", where=path
        ) from error
    # People rename files: whatever Keras format a file has, it is opened as that.
    if not head or (suffix in KERAS_SUFFIXES and not head.startswith(_KERAS_MAGIC)):
        found = f"not a {suffix} model: it {f'starts with {head!r}' if head else 'is empty'}"
        ways = "It may be truncated or misnamed; save the model again"
        raise InputError(found, _next_step(path, ways), where=path)
    if head.startswith(_ZIP_MAGIC) and suffix in KERAS_SUFFIXES:
        _check_archive(path)


def _check_archive(path: Path) -> None:
    """Raises `InputError` for an archive that Keras did not write, or that is cut off."""
    if not is_zipfile(path):
        found = "not a .keras model: its end, with the list of its contents, is missing"
        raise InputError(found, "Copy or save the model again", where=path)
    try:
        names = ZipFile(path).namelist()
    except BadZipFile:
        return  # told where the archive is read
    if "config.json" not in names:
        of_torch = any(name.endswith("data.pkl") for name in names)
        found = "is an archive without config.json, and no model of Keras"
        raise InputError(found, _EXPORT if of_torch else _UNPACK, where=path)
