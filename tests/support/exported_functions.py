"""Functions of tensors as ONNX models, run beside TensorFlow on the same arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfmp.converters.intake import open_source
from tfmp.converters.intake.source import Source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.onnx.graph.storage import open_once


def source_of(function: Callable[..., Any], *arrays: np.ndarray) -> Source:
    """A function of tensors of these dtypes and shapes, the first axis open."""
    signature = [
        tf.TensorSpec((None, *array.shape[1:]), array.dtype, name=f"x{i}")
        for i, array in enumerate(arrays)
    ]
    return open_source(tf.function(function, input_signature=signature))


def run_both(
    function: Callable[..., Any], *arrays: np.ndarray, opset: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What TensorFlow and the export make of these arrays; the export passes its own check too."""
    source = source_of(function, *arrays)
    model = export_onnx(source, opset)
    check_export(model, source)
    batch = {f"x{i}": array for i, array in enumerate(arrays)}
    (expected,) = source.forward(batch).values()
    (received,) = open_once(model)([spec.name for spec in source.outputs], batch)
    return expected, received


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
