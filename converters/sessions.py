"""ONNX Runtime sessions, set up the same way everywhere."""

from pathlib import Path
from typing import Any


def cpu_session(model: Path | bytes) -> Any:
    """An `InferenceSession` of a file or a serialized model on the CPU provider.

    Raises:
        Exception: whatever ONNX Runtime says of a model that it cannot load; its exceptions share
            no base class.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it would print is in the exception
    return onnxruntime.InferenceSession(
        str(model) if isinstance(model, Path) else model,
        options,
        providers=["CPUExecutionProvider"],
    )
