"""ONNX files, and ONNX Runtime sessions of them, opened the same way everywhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.frameworks import NodeArg, OrtSession
from tfmp.converters.shared.onnx_files import read_light, without_maps
from tfmp.converters.shared.tensors import TEXT, TensorSpec

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

_NUMPY_DTYPES = {"float": "float32", "double": "float64"}


def read_onnx(path: Path, mapped: bool = True) -> "ir.Model":
    """A model file, whose large weights are read when they are asked for.

    Args:
        path: the file.
        mapped: False for a model that is used for longer than nobody writes to the file.

    Raises:
        ValueError: a name is no text.
        Exception: the file cannot be read; protobuf, ONNX and onnx-ir each raise their own.
    """
    import onnx_ir as ir

    proto, weights = _light(path, mapped)
    model = ir.from_proto(proto)
    for name, array in weights.items():
        model.graph.initializers[name].const_value = ir.tensor(array, name=name)
    ir.external_data.set_base_dir(model.graph, path.parent)
    return model


def holds(model: "ir.Model", *names: str) -> bool:
    """Whether a graph has numbers of any of these types of ONNX, such as "BFLOAT16"."""
    import onnx_ir as ir

    types = {ir.DataType[name] for name in names}
    values = (*model.graph.inputs, *model.graph.initializers.values())
    casts = (node.attributes.get("to") for node in model.graph.all_nodes())
    return any(value.dtype in types for value in values) or any(
        to is not None and to.value in types for to in casts
    )


def onnx_metadata(path: Path) -> dict[str, str]:
    """The metadata of a model file; raises as `read_onnx` does."""
    return {item.key: item.value for item in _light(path, True)[0].metadata_props}


def _light(path: Path, mapped: bool) -> "tuple[onnx.ModelProto, dict[str, np.ndarray]]":
    proto, weights = read_light(path, mapped)
    _check_texts(proto)
    without_maps(proto)
    return proto, weights


def _check_texts(message: Any) -> None:
    """Raises `ValueError` for names that are not UTF-8, and so come as bytes.

    Comments get signs in the place of the bytes that mean nothing: no one needs them.
    """
    for field, value in message.ListFields():
        alone = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        values = (value,) if alone else value
        if field.type == field.TYPE_MESSAGE:
            for each in values:
                _check_texts(each)
        elif field.type == field.TYPE_STRING and field.name == "doc_string":
            if isinstance(value, bytes):
                setattr(message, field.name, value.decode(errors="replace"))
        elif field.type == field.TYPE_STRING:
            for text in values:
                if isinstance(text, bytes):
                    raise ValueError(f"{field.full_name} is {text[:64]!r}, which is not UTF-8")


def tensor_spec(value: NodeArg) -> TensorSpec:
    """The signature of a session's input or output (`NodeArg`).

    Raises:
        RunnerError: it is a sequence, a map or an optional value instead of a tensor.
    """
    if not value.type.startswith("tensor("):
        raise RunnerError(
            f"{value.name!r} is a {value.type}, not a tensor, so it cannot be compared value by "
            "value. Export it with tensors only."
        )
    element = value.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    dtype = TEXT if element == TEXT else str(np.dtype(_NUMPY_DTYPES.get(element, element)))
    return TensorSpec(value.name, shape, dtype)


def cpu_session(
    model: Path | bytes,
    optimized: bool = True,
    alone: bool = True,
    disabled: Sequence[str] = (),
    reuse: bool = True,
    folder: Path = Path(),
) -> OrtSession:
    """An `InferenceSession` of a file or a serialized model on the CPU provider.

    Args:
        model: the file's path, or the serialized model.
        optimized: False for a session that loads faster and runs slower.
        alone: False for a session whose runs alternate with another runtime's: its threads sleep
            between runs, where ONNX Runtime lets them wait busily for the next one.
        disabled: names of optimizers to leave out.
        folder: with the weights of a serialized model that lie in files of their own.
        reuse: False to give each value memory of its own, whatever the names of sizes say.

    Raises:
        Exception: ONNX Runtime cannot load the model; its exceptions share no base class.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_mem_reuse = reuse
    key = "session.model_external_initializers_file_folder_path"
    options.add_session_config_entry(key, str(folder))
    options.log_severity_level = 4  # what it would print is in the exception
    if not alone:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    known = {"providers": ["CPUExecutionProvider"], "disabled_optimizers": list(disabled)}
    given = str(model) if isinstance(model, Path) else model
    session = onnxruntime.InferenceSession(given, options, **known)
    if isinstance(model, Path) and any("map(" in value.type for value in session.get_outputs()):
        whole = onnx.load(model)
        without_maps(whole)
        session = onnxruntime.InferenceSession(whole.SerializeToString(), options, **known)
    return session
