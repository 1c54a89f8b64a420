"""Mixed-precision training for Keras, and proof of what static FP16 costs.

Importing this package imports neither TensorFlow nor Keras: each public name loads its module on
first use (PEP 562).
"""

from typing import TYPE_CHECKING

from tfmp.registration import when_keras_is_imported

if TYPE_CHECKING:
    from tfmp.callback import MixedPrecision
    from tfmp.loss_scale import DynamicLossScale, LossScaleOptimizer, StaticLossScale
    from tfmp.policy import PrecisionPlan, plan, revert

__all__ = [
    "DynamicLossScale",
    "LossScaleOptimizer",
    "MixedPrecision",
    "PrecisionPlan",
    "StaticLossScale",
    "plan",
    "revert",
]

_HOME = {
    "DynamicLossScale": "tfmp.loss_scale",
    "LossScaleOptimizer": "tfmp.loss_scale",
    "MixedPrecision": "tfmp.callback",
    "PrecisionPlan": "tfmp.policy",
    "StaticLossScale": "tfmp.loss_scale",
    "plan": "tfmp.policy",
    "revert": "tfmp.policy",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


when_keras_is_imported()
