"""ONNX files from anywhere, which need no export."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from tfmp.converters.intake.source import OnnxSource, Origin, path_sha256, path_size, pin
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.sessions import cpu_session
from tfmp.converters.shared.tensors import TEXT, Batch, TensorSpec, in_dtype
from tfmp.shared.wording import first_line


def from_onnx(
    path: Path,
    batch_size: int | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> OnnxSource:
    """Loads an ONNX file and fixes the sizes of inputs that are asked for.

    Raises:
        InputError: ONNX Runtime refuses the file, or a shape contradicts the model's.
    """
    try:
        model = ir.load(path)
        session = cpu_session(path)
    except Exception as error:  # protobuf, onnx-ir and ONNX Runtime each raise their own
        raise InputError(
            f"{path}: not a usable ONNX model ({first_line(error)}). It may be truncated, "
            "or its external data may be missing beside it; export it again."
        ) from error
    _open_negative_sizes(model)
    supplied = {value.name for value in session.get_inputs()}
    values = [value for value in model.graph.inputs if value.name in supplied]
    inputs = pin([_spec(value) for value in values], batch_size, input_shapes or {})
    for value, spec in zip(values, inputs, strict=True):
        value.shape = ir.Shape(
            own if size is None else size
            for own, size in zip(value.shape or (), spec.shape, strict=True)
        )
    outputs = tuple(_spec(value) for value in model.graph.outputs)

    def forward(batch: Batch) -> Batch:
        names = [spec.name for spec in outputs]
        fed = {spec.name: in_dtype(batch[spec.name], spec.dtype) for spec in inputs}
        return dict(zip(names, session.run(names, fed), strict=True))

    origin = Origin(path.stem, "onnx", path, path_sha256(path), path_size(path))
    return OnnxSource(origin, inputs, outputs, model, forward)


def _open_negative_sizes(model: ir.Model) -> None:
    """Makes sizes that vary of those that are written as -1, as PaddlePaddle does."""
    made = (value for node in model.graph.all_nodes() for value in node.outputs)
    for value in (*model.graph.inputs, *model.graph.outputs, *made):
        sizes = list(value.shape or ())
        if any(isinstance(size, int) and size < 0 for size in sizes):
            value.shape = ir.Shape(
                None if isinstance(size, int) and size < 0 else size for size in sizes
            )


def _spec(value: ir.Value) -> TensorSpec:
    if value.shape is None or value.dtype is None:
        raise InputError(
            f"ONNX value {value.name!r} has no shape or type. Run `onnx.shape_inference` on the "
            "model, or export it with typed inputs and outputs."
        )
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    dtype = TEXT if value.dtype is ir.DataType.STRING else value.dtype.numpy().name
    return TensorSpec(str(value.name), shape, dtype)
