"""Static FP16 ONNX and TFLite from any Keras or TensorFlow model, with proof of what it cost.

The folder `converters/` is installed and imported as `tfmp.converters`.
"""

from typing import TYPE_CHECKING

if __name__ != "tfmp.converters":
    raise ImportError(
        f"this package is `tfmp.converters`, but was imported as {__name__!r}. Install the project "
        "(`pip install -e .`) and write `import tfmp.converters`."
    )

if TYPE_CHECKING:
    from tfmp.converters.artifact import Artifact
    from tfmp.converters.drift.verdict import DriftBudget
    from tfmp.converters.intake.open import open_source
    from tfmp.converters.pipeline import convert
    from tfmp.converters.report.model import DriftReport
    from tfmp.converters.validation import validate

__all__ = ["Artifact", "DriftBudget", "DriftReport", "convert", "open_source", "validate"]

_HOME = {
    "Artifact": "tfmp.converters.artifact",
    "DriftBudget": "tfmp.converters.drift.verdict",
    "DriftReport": "tfmp.converters.report.model",
    "convert": "tfmp.converters.pipeline",
    "open_source": "tfmp.converters.intake.open",
    "validate": "tfmp.converters.validation",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
