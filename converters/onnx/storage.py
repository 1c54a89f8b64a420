"""ONNX models on disk and in ONNX Runtime, on both sides of protobuf's 2 GiB."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import onnx_ir as ir

from tfmp.converters.errors import ConversionError, InputError
from tfmp.converters.onnx.types import check
from tfmp.converters.sessions import cpu_session

# Protobuf ends at 2 GiB; what is no weight (nodes, names, types) has room in the rest.
_EMBEDDED_BYTES = 2**31 - 2**26


def open_session(model: ir.Model) -> Any:
    """An ONNX Runtime session of a model in memory, whatever its size; see `cpu_session`."""
    if weight_bytes(model) < _EMBEDDED_BYTES:
        return cpu_session(ir.to_proto(model).SerializeToString())
    with tempfile.TemporaryDirectory(prefix="tfmp-") as folder:
        path = Path(folder, "model.onnx")
        ir.save(model, path, external_data="weights")
        return cpu_session(path)


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers."""
    return sum(
        value.const_value.nbytes
        for value in model.graph.initializers.values()
        if value.const_value is not None
    )


def save_checked(model: ir.Model, path: Path, external_data: bool = False) -> None:
    """Writes a model that passes ONNX's full check and that ONNX Runtime loads, or nothing.

    Args:
        model: to write.
        path: of the file. Weights go beside it, to `path` with ".data" behind, if they are asked
            to or do not fit into protobuf.
        external_data: write weights beside the model.

    Raises:
        ConversionError: the model is invalid or cannot be loaded.
        InputError: the file for the weights exists and belongs to no model that is replaced.
    """
    check(model)
    beside = external_data or weight_bytes(model) >= _EMBEDDED_BYTES
    data = path.with_name(f"{path.name}.data")
    if beside and data.exists() and not path.exists():
        raise InputError(f"{data}: already exists. Remove it, or choose another output.")
    draft = Path(tempfile.mkdtemp(prefix=f".{path.stem}.", dir=path.parent))
    try:
        ir.save(model, draft / path.name, external_data=data.name if beside else None)
        try:
            cpu_session(draft / path.name)
        except Exception as error:
            raise ConversionError(
                f"ONNX Runtime cannot load the converted model ({str(error).splitlines()[0]}). "
                "This is a defect of tfmp: report it with the model; `--keep-fp32` on the op named "
                "here avoids it."
            ) from error
        if beside:
            (draft / data.name).replace(data)
        else:
            data.unlink(missing_ok=True)  # of the model that is replaced
        (draft / path.name).replace(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
