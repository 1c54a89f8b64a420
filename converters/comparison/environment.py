"""The machine and the software that a report was made with."""

import platform

from tfmp.shared.packages import installed_versions, processor_name

_PACKAGES = (
    "tfmp",
    "tensorflow",
    "keras",
    "onnx",
    "onnxruntime-gpu",
    "onnxruntime",
    "tf2onnx",
    "ai-edge-litert",
    "numpy",
)


def environment() -> dict[str, str]:
    """Versions by package name, and the processor; packages that are absent are left out."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    found["processor"] = processor_name()
    return found | installed_versions(_PACKAGES)
