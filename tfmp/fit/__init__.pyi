from .callback import MixedPrecision as MixedPrecision
from .preflight import (
    PlannedModel as PlannedModel,
    odd_sizes as odd_sizes,
    preflight_findings as preflight_findings,
)
