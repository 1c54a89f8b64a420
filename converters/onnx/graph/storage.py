"""ONNX models on disk and in ONNX Runtime, on both sides of protobuf's 2 GiB."""

import filecmp
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import external_data_helper as helper

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
from tfmp.converters.shared.onnx_files import GRAPH, INITIALIZER, RAW_DATA, delimited, read_light
from tfmp.converters.shared.sessions import cpu_session
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
    inputs = len(proto.graph.input)
    weights_as_inputs(proto, weights)
    check_light(proto)
    strip_inferred(proto)
    _check_loads(*_loadable(model, proto))
    del proto.graph.input[inputs:]
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
            if beside and not (folder / data.name).exists():  # they have been put there just now
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
    disabled = (FAULTY_OPTIMIZER,) if fault_of(model) else ()
    try:
        cpu_session(light.SerializeToString(), disabled=disabled)
        return
    except Exception:  # ONNX Runtime's exceptions share no base class
        pass
    try:  # some kernels insist on constants, which are inputs in a light model
        open_session(model)
    except Exception as error:
        raise ConversionError(
            f"ONNX Runtime cannot open the converted model ({first_line(error)}). Fix sizes that "
            "vary with --batch or --input-shape, or leave the op named here in FP32 with "
            "--keep-fp32. If neither helps, it is a defect of tfmp: report it with the model."
        ) from error


def _write_beside(model: ir.Model, folder: Path, path: Path) -> Path:
    """Writes the model to a draft, and its weights to their place under a name that is given."""
    digest = hashlib.sha256()
    for value in chain.from_iterable(graph.initializers.values() for graph in model.graphs()):
        if value.const_value is not None and value.dtype != ir.DataType.STRING:
            digest.update(f"{value.name}:".encode() + value.const_value.tobytes())
    data = path.with_name(f"{path.name}.{digest.hexdigest()[:_DIGITS]}.data")
    ir.save(model, folder / path.name, external_data=data.name)
    if not data.exists():
        (folder / data.name).replace(data)
    elif not filecmp.cmp(data, folder / data.name, shallow=False):
        raise InputError(f"{data}: already exists. Remove it, or choose another output.")
    return data


def external_files(path: Path) -> tuple[Path, ...]:
    """Files beside an ONNX file that hold its weights, whether they are there or not.

    None for a file that cannot be read: whoever opens it says why.
    """
    try:
        proto, _ = read_light(path, mapped=True)
    except Exception:  # protobuf and ONNX each raise their own
        return ()
    outside = filter(helper.uses_external_data, helper._get_all_tensors(proto))
    names = {helper.ExternalDataInfo(tensor).location for tensor in outside}
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
    heads, total = {}, len(graph)
    for name, tensor in weights.items():
        stub = onnx.TensorProto(name=name, dims=tensor.shape.numpy())
        stub.data_type = tensor.dtype.value
        size = tensor.nbytes
        described = stub.SerializeToString() + delimited(RAW_DATA, size)
        heads[name] = delimited(INITIALIZER, len(described) + size) + described
        total += len(heads[name]) + size
    yield proto.SerializeToString()
    yield delimited(GRAPH, total)
    yield graph
    for name, tensor in weights.items():
        yield heads[name]
        yield _content(tensor)
