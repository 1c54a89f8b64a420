"""Sizes that an ONNX file from elsewhere declares against what its operators give."""

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
    if _contradiction(model) is None:
        return model
    for node in model.graph:
        for value in node.outputs:
            value.shape = value.shape if value.is_graph_output() else None
    if (found := _contradiction(model)) is not None:
        raise ConversionError(
            f"{path}: its outputs have other shapes than it declares, or its operators contradict "
            f"each other ({found})",
            "Correct the shapes in the file, or export the model again",
        )
    return model


def _contradiction(model: ir.Model) -> str | None:
    try:
        onnx.shape_inference.infer_shapes(light_proto(model), check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        return first_line(error)
    return None
