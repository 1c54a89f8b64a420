"""The tools that field cases were reported against, each as it is called in the reports.

A tool gets a model and writes a file, or tells in words what it gives.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import scaffold
from field_case import FieldCase

from tfmp.converters.shared.tensors import Batch

# Writes a file at the path and returns None, or returns a sentence on its result.
Tool = Callable[[Any, Path, FieldCase], None]


def _onnxconverter_common(model: onnx.ModelProto, path: Path, case: FieldCase) -> None:
    from onnxconverter_common import float16

    onnx.save(float16.convert_float_to_float16(model, keep_io_types=True, **case.asked), path)


def _all_rounded(model: onnx.ModelProto, path: Path, case: FieldCase) -> None:
    """Every node that can be FP16, and every constant the nearest FP16 number."""
    from onnxconverter_common import float16

    with np.errstate(over="ignore", under="ignore"):
        half = float16.convert_float_to_float16(
            model, keep_io_types=True, min_positive_val=0.0, max_finite_val=np.inf
        )
    onnx.save(half, path)


def _auto_mixed_precision(model: onnx.ModelProto, path: Path, case: FieldCase) -> None:
    from onnxconverter_common import auto_mixed_precision

    feed = {name: values[:2] for name, values in case.batch().items()}
    mixed = auto_mixed_precision.auto_convert_mixed_precision(
        model, feed, rtol=0.01, atol=0.001, keep_io_types=True
    )
    onnx.save(mixed, path)


def _onnxruntime_transformers(model: onnx.ModelProto, path: Path, case: FieldCase) -> None:
    from onnxruntime.transformers import float16

    onnx.save(float16.convert_float_to_float16(model, keep_io_types=True, **case.asked), path)


def _onnx_model(model: onnx.ModelProto, path: Path, case: FieldCase) -> None:
    from onnxruntime.transformers.onnx_model import OnnxModel

    tool = OnnxModel(model)
    tool.convert_float_to_float16(keep_io_types=True, **case.asked)
    onnx.save(tool.model, path)


def _tflite_converter(model: Any, path: Path, case: FieldCase) -> None:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]
    path.write_bytes(converter.convert())


def _from_keras(model: Any, path: Path, case: FieldCase) -> None:
    import tf2onnx

    tf2onnx.convert.from_keras(model, output_path=str(path))


# What shows the trouble of a report whose own tool cannot be run here.
CONTROL = "plain rounding"
TOOLS: Mapping[str, Tool] = {
    CONTROL: _all_rounded,
    "onnxconverter-common": _onnxconverter_common,
    "auto_mixed_precision": _auto_mixed_precision,
    "onnxruntime.transformers": _onnxruntime_transformers,
    "OnnxModel.convert_float_to_float16": _onnx_model,
    "TFLiteConverter, float16": _tflite_converter,
    "tf2onnx.convert.from_keras": _from_keras,
}


@dataclass(frozen=True)
class Faults:
    """What is wrong with a file; "" where nothing is.

    Attributes:
        check: the complaint of ONNX's full check with strict types.
        run: why it cannot be loaded or run.
    """

    check: str = ""
    run: str = ""


def faults_of(path: Path, batch: Batch) -> Faults:
    """Checks, loads and runs a file."""
    if path.suffix == ".tflite":
        return Faults(run=_error_of(lambda: _load_tflite(path)))
    check = _error_of(lambda: _check_onnx(path))
    return Faults(check, _error_of(lambda: _run_onnx(path, batch)))


def _error_of(step: Callable[[], Any]) -> str:
    try:
        step()
    except Exception as error:  # whatever the checker and the runtimes raise
        return first_words(error)
    return ""


def _check_onnx(path: Path) -> None:
    onnx.checker.check_model(str(path), full_check=True)
    onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True)


def _run_onnx(path: Path, batch: Batch) -> None:
    from tfmp.converters.shared.sessions import cpu_session

    session = cpu_session(path)
    names = [value.name for value in session.get_inputs()]
    # An exporter that renames inputs keeps their order.
    arrays = batch if batch.keys() >= {*names} else dict(zip(names, batch.values(), strict=True))
    session.run(None, {name: arrays[name] for name in names})


def _load_tflite(path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    Interpreter(model_path=str(path)).allocate_tensors()


def first_words(error: Exception) -> str:
    """The start of an error's text, without folders, for a table."""
    line = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
    if line.startswith("Nodes in a graph must be topologically sorted"):
        return "nodes are out of order"
    return scaffold.first_words(line or type(error).__name__, most=150)


def drift_text(drift: float | None) -> str:
    """A drift behind a verdict."""
    if drift is None:
        return ""
    return f", drift {drift:.1e}" if math.isfinite(drift) else ", NaN or infinite"
