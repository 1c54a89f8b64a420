"""Sizes that an ONNX file from elsewhere declares against what its operators give."""

from collections.abc import Iterable
from pathlib import Path

import onnx
import onnx_ir as ir

from tfmp.converters.onnx.graph import light_proto
from tfmp.converters.shared.errors import ConversionError
from tfmp.shared.wording import first_line


def without_false_sizes(model: ir.Model, path: Path | None) -> ir.Model:
    """Takes back what a file declares of inner values where its operators give other sizes.

    Args:
        model: a graph that ONNX Runtime runs; it is changed.
        path: of the file.

    Raises:
        ConversionError: an output is declared with a size that it does not have, or operators
            contradict each other.
    """
    proto = light_proto(model)
    try:
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
        return model
    except onnx.shape_inference.InferenceError:
        infos = (*proto.graph.value_info, *proto.graph.output)
        declared = {info.name: _sizes(info.type) for info in infos}
    proto.graph.ClearField("value_info")
    for info in proto.graph.output:
        info.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        raise ConversionError(
            f"{path}: its operators contradict each other ({first_line(error)})",
            "Export the model again",
        ) from error
    outputs = {info.name for info in inferred.graph.output}
    values = {value.name: value for node in model.graph for value in node.outputs}
    for info in (*inferred.graph.value_info, *inferred.graph.output):
        told, found = declared.get(info.name), _sizes(info.type)
        if not _contradict(told, found):
            continue
        if info.name in outputs:
            raise ConversionError(
                f"{path}: declares output {info.name!r} with shape {_words(told)}, and its "
                f"operators give {_words(found)}",
                "Correct the shape in the file, or export the model again",
            )
        values[info.name].shape = ir.Shape(found or ())
    return model


def _sizes(declared: onnx.TypeProto) -> list[int | None] | None:
    """The sizes of a type, with None for one that varies; None where it has no shape."""
    tensor = declared.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [size.dim_value if size.HasField("dim_value") else None for size in tensor.shape.dim]


def _contradict(told: list[int | None] | None, found: list[int | None] | None) -> bool:
    if told is None or found is None:
        return False
    pairs = zip(told, found, strict=False)
    return len(told) != len(found) or any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _words(sizes: Iterable[int | None] | None) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in sizes or ())}]"
