"""Mixed-precision training for Keras, and proof of what static FP16 costs.

Importing this package imports neither TensorFlow nor Keras: each public name loads its module on
first use (PEP 562).
"""

from typing import TYPE_CHECKING

from tfmp.registration import when_keras_is_imported

if TYPE_CHECKING:
    from tfmp.calibration import calibrate
    from tfmp.callback import MixedPrecision
    from tfmp.checkup import doctor
    from tfmp.colocation import colocate
    from tfmp.colocation_job import Job
    from tfmp.diagnose import locate_nonfinite
    from tfmp.graph_rewriting import graph_rewrite
    from tfmp.loss_scale import LossScaleOptimizer
    from tfmp.policy import plan, policy_scope
    from tfmp.precision_plan import PrecisionPlan
    from tfmp.profiling import profile_training
    from tfmp.strategies import DynamicLossScale, ScheduledLossScale, StaticLossScale
    from tfmp.undo import revert

__all__ = [
    "DynamicLossScale",
    "Job",
    "LossScaleOptimizer",
    "MixedPrecision",
    "PrecisionPlan",
    "ScheduledLossScale",
    "StaticLossScale",
    "calibrate",
    "colocate",
    "doctor",
    "graph_rewrite",
    "locate_nonfinite",
    "plan",
    "policy_scope",
    "profile_training",
    "revert",
]

_HOME = {
    "DynamicLossScale": "tfmp.strategies",
    "Job": "tfmp.colocation_job",
    "LossScaleOptimizer": "tfmp.loss_scale",
    "MixedPrecision": "tfmp.callback",
    "PrecisionPlan": "tfmp.precision_plan",
    "ScheduledLossScale": "tfmp.strategies",
    "StaticLossScale": "tfmp.strategies",
    "calibrate": "tfmp.calibration",
    "colocate": "tfmp.colocation",
    "doctor": "tfmp.checkup",
    "graph_rewrite": "tfmp.graph_rewriting",
    "locate_nonfinite": "tfmp.diagnose",
    "plan": "tfmp.policy",
    "policy_scope": "tfmp.policy",
    "profile_training": "tfmp.profiling",
    "revert": "tfmp.undo",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


when_keras_is_imported()
