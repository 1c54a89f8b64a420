"""ONNX models on disk and in ONNX Runtime, on both sides of protobuf's 2 GiB."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.onnx.graph.faults import FAULTY_OPTIMIZER, fault_of
from tfmp.converters.onnx.graph.schema import BF16, is_float
from tfmp.converters.onnx.graph.traversal import nodes_of
from tfmp.converters.onnx.graph.types import (
    check_light,
    detach_weights,
    light_proto,
    strip_inferred,
    weights_as_inputs,
)
from tfmp.converters.onnx.graph.widening import widen
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.converters.shared.frameworks import OrtSession
from tfmp.converters.shared.onnx_files import GRAPH, INITIALIZER, RAW_DATA, delimited
from tfmp.converters.shared.sessions import cpu_session, read_onnx
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.atomic_file import draft, making, naming, temporary_folder
from tfmp.shared.wording import first_line

# Runs a model: output names and arrays by input name, to arrays.
Run = Callable[[Sequence[str], Batch], list[np.ndarray]]

# Protobuf ends at 2 GiB; what is no weight (nodes, names, types) has room in the rest.
_EMBEDDED_BYTES = 2**31 - 2**26

# No kernel reads numbers of more bytes at once.
_ALIGNED_BYTES = 64

# Of the hash that weights beside a model are named after.
_DIGITS = 12


def open_session(model: ir.Model, alone: bool = True) -> OrtSession:
    """An ONNX Runtime session of a model in memory, which may have any size; see `cpu_session`.

    It reads the weights from a file: of one that it has packed for its kernels it then keeps
    nothing else, while arrays in memory would stay beside their packed form.
    """
    proto, weights = detach_weights(model)
    with temporary_folder() as folder:
        with (folder / "weights").open("wb") as data:
            for name, tensor in weights.items():
                data.write(bytes(-data.tell() % _ALIGNED_BYTES))
                stub = proto.graph.initializer.add(name=name, dims=tensor.shape.numpy())
                stub.data_type = tensor.dtype.value
                stub.data_location = onnx.TensorProto.EXTERNAL
                place = {"location": "weights", "offset": data.tell(), "length": tensor.nbytes}
                for key, value in place.items():
                    stub.external_data.add(key=key, value=str(value))
                data.write(_content(tensor))
        (folder / "model").write_bytes(proto.SerializeToString())
        return cpu_session(folder / "model", alone=alone)


def open_once(model: ir.Model) -> Run:
    """Loads a model to see that it loads, or to run it a single time.

    Its weights enter as inputs: ONNX Runtime copies initializers, even external ones, and packs
    them once more. If a kernel insists on a constant, they are initializers after all.
    """
    proto, weights = detach_weights(model)
    weights_as_inputs(proto, weights)
    try:
        session = cpu_session(proto.SerializeToString(), optimized=False)
    except Exception:  # ONNX Runtime's exceptions share no base class
        return open_session(model).run
    held = {name: tensor.numpy() for name, tensor in weights.items()}
    return lambda names, batch: session.run(names, {**batch, **held})


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers."""
    return sum(
        value.const_value.nbytes
        for value in model.graph.initializers.values()
        if value.const_value is not None
    )


def save_checked(model: ir.Model, path: Path, external_data: bool = False) -> list[str]:
    """Writes a model that passes ONNX's full check and that ONNX Runtime loads, or nothing.

    Weights beside the model are named after their content, so a new model never meets the weights
    of an old one: whenever the process ends, the old pair or the new pair is complete. The weights
    of a model that was replaced stay, as any other file may name them.

    Args:
        model: the model to write.
        path: the file's path. Weights go beside it, to `path` with a hash and ".data" behind, if
            that is asked for or they do not fit into protobuf.
        external_data: write weights beside the model.

    Returns:
        A note on each file with weights of the replaced model.

    Raises:
        ConversionError: the model is invalid, or cannot be loaded as it is or optimized.
        InputError: a file of that name exists beside it and holds something else.
    """
    proto, weights = detach_weights(model)
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    weights_as_inputs(light, weights)
    check_light(light)
    strip_inferred(light)
    proto.graph.ClearField("value_info")
    proto.graph.value_info.extend(light.graph.value_info)
    _check_loads(*_loadable(model, light))
    beside = external_data or weight_bytes(model) >= _EMBEDDED_BYTES
    left = {file.name for file in external_files(path) if file.is_file()}
    with making(path.parent), draft(path.parent) as folder, naming(path):
        if beside:
            data = _write_beside(model, folder, path)
            left.discard(data.name)
        else:
            with (folder / path.name).open("wb") as opened:
                opened.writelines(_serialized(proto, weights))
        try:
            (folder / path.name).replace(path)
        except BaseException:
            if beside and not (folder / "weights").exists():  # they have been put there just now
                data.unlink()
            raise
    return [
        f"{path.with_name(name)} has the weights of the replaced model. Remove it if no other "
        "file needs it"
        for name in sorted(left)
    ]


def _loadable(model: ir.Model, light: onnx.ModelProto) -> tuple[ir.Model, onnx.ModelProto]:
    """A model that ONNX Runtime's CPU provider has kernels for, with its light form.

    It has none for bfloat16, but the same graph in float32 shows whatever else is wrong.
    """
    if not any(is_float(value, BF16) for node in nodes_of(model.graph) for value in node.outputs):
        return model, light
    wide = model.clone()
    widen(wide)
    return wide, light_proto(wide)


def _check_loads(model: ir.Model, light: onnx.ModelProto) -> None:
    """Raises `ConversionError` for a model that ONNX Runtime does not open, or not optimized."""
    content = light.SerializeToString()
    disabled = (FAULTY_OPTIMIZER,) if fault_of(model) else ()
    try:
        cpu_session(content, disabled=disabled)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        if _opens_only_with_constants(model, content):
            return
        raise ConversionError(
            f"ONNX Runtime's optimizers fail on the converted model ({first_line(error)}), so a "
            "session with default options would not open it. Fix sizes that vary with --batch or "
            "--input-shape."
        ) from error


def _opens_only_with_constants(model: ir.Model, content: bytes) -> bool:
    """Whether a kernel insists on constants, which are inputs in a light model.

    Raises:
        ConversionError: the model does not open with them either.
    """
    try:
        cpu_session(content, optimized=False)
        return False
    except Exception:
        try:
            open_session(model)
            return True
        except Exception as error:
            raise ConversionError(
                f"ONNX Runtime cannot load the converted model ({first_line(error)}). This is a "
                "defect of tfmp: report it with the model; `--keep-fp32` on the op named here "
                "avoids it."
            ) from error


def _write_beside(model: ir.Model, folder: Path, path: Path) -> Path:
    """Writes the model to a draft, and its weights to their place under a name that is given."""
    ir.save(model, folder / path.name, external_data="weights")
    digest = _sha256(folder / "weights")
    data = path.with_name(f"{path.name}.{digest[:_DIGITS]}.data")
    if data.exists() and _sha256(data) != digest:
        raise InputError(f"{data}: already exists. Remove it, or choose another output.")
    proto = onnx.load(folder / path.name, load_external_data=False)
    for tensor in _external_tensors(proto.graph):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = data.name
    (folder / path.name).write_bytes(proto.SerializeToString())
    if not data.exists():
        (folder / "weights").replace(data)
    return data


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _external_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Tensors of a graph and its subgraphs that lie in another file."""
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            tensors += [attribute.t, *attribute.tensors]
            for inner in (attribute.g, *attribute.graphs):
                yield from _external_tensors(inner)
    yield from (each for each in tensors if each.data_location == onnx.TensorProto.EXTERNAL)


def external_files(path: Path) -> tuple[Path, ...]:
    """Files beside an ONNX file that hold its weights, whether they are there or not.

    None for a file that cannot be read: whoever opens it says why.
    """
    try:
        graph = read_onnx(path).graph
    except Exception:  # protobuf and onnx-ir each raise their own
        return ()
    weights = [value.const_value for value in graph.initializers.values()]
    for node in graph.all_nodes():
        weights += [item.value for item in node.attributes.values() if item.type.name == "TENSOR"]
        for item in node.attributes.values():
            if item.type.name == "GRAPH":
                weights += [value.const_value for value in item.value.initializers.values()]
    names = {str(item.location) for item in weights if isinstance(item, ir.ExternalTensor)}
    return tuple(path.parent / name for name in sorted(names))


def _content(tensor: ir.TensorProtocol) -> memoryview:
    """The bytes of a tensor of numbers, as they lie in memory."""
    return np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data


def _serialized(
    proto: onnx.ModelProto, weights: Mapping[str, ir.TensorProtocol]
) -> Iterator[bytes | memoryview]:
    """The model's protobuf bytes, piece by piece, weights as they lie in memory.

    Protobuf's own serializer would hold two more copies of all weights.
    """
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    heads = {}
    for name, tensor in weights.items():
        stub = onnx.TensorProto(name=name, dims=tensor.shape.numpy())
        stub.data_type = tensor.dtype.value
        described = stub.SerializeToString() + delimited(RAW_DATA, tensor.nbytes)
        heads[name] = delimited(INITIALIZER, len(described) + tensor.nbytes) + described
    yield proto.SerializeToString()
    total = len(graph) + sum(len(heads[name]) + weights[name].nbytes for name in weights)
    yield delimited(GRAPH, total)
    yield graph
    for name, tensor in weights.items():
        yield heads[name]
        yield _content(tensor)
