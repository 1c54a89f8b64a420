"""All training cases, in the order of the page; `benchmarks/training_cases.py` runs them."""

import training_layers
import training_scaling
from training_case import TrainingCase


def training_cases() -> list[TrainingCase]:
    """The cases."""
    return [*training_scaling.CASES, *training_layers.CASES]
