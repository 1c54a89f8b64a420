from .callback import MixedPrecision as MixedPrecision
from .preflight import (
    PlannedModel as PlannedModel,
    preflight_findings as preflight_findings,
)
