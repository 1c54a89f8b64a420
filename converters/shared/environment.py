"""The machine and the software that a report was made with."""

import platform

from tfmp.shared.packages import installed_versions

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
    found["processor"] = _processor()
    return found | installed_versions(_PACKAGES)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
