"""ONNX Runtime sessions, set up the same way everywhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.frameworks import NodeArg, OrtSession
from tfmp.converters.shared.tensors import TEXT, TensorSpec

_NUMPY_DTYPES = {"float": "float32", "double": "float64"}


def tensor_spec(value: NodeArg) -> TensorSpec:
    """The signature of a session's input or output (`NodeArg`).

    Raises:
        RunnerError: it is a sequence, a map or an optional value instead of a tensor.
    """
    if not value.type.startswith("tensor("):
        raise RunnerError(
            f"{value.name!r} is a {value.type}, not a tensor, so it cannot be compared value by "
            "value. Export the model with tensors only (a scikit-learn model with zipmap=False)."
        )
    element = value.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    dtype = TEXT if element == TEXT else str(np.dtype(_NUMPY_DTYPES.get(element, element)))
    return TensorSpec(value.name, shape, dtype)


def cpu_session(
    model: Path | bytes,
    weights: Mapping[str, np.ndarray] | None = None,
    optimized: bool = True,
    alone: bool = True,
    disabled: Sequence[str] = (),
) -> OrtSession:
    """An `InferenceSession` of a file or a serialized model on the CPU provider.

    Args:
        model: the file's path, or the serialized model.
        weights: arrays of the initializers that `model` declares as external; they are not copied.
        optimized: False for a session that loads faster and runs slower.
        alone: False for a session whose runs alternate with another runtime's: its threads sleep
            between runs, where ONNX Runtime lets them wait busily for the next one.
        disabled: names of optimizers to leave out.

    Raises:
        Exception: ONNX Runtime cannot load the model; its exceptions share no base class.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it would print is in the exception
    if weights:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
    if not alone:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        str(model) if isinstance(model, Path) else model,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=list(disabled),
    )
