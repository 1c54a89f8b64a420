from .callback import MixedPrecision as MixedPrecision
from .preflight import (
    UNSCALED_STEP as UNSCALED_STEP,
    PlannedModel as PlannedModel,
    preflight_findings as preflight_findings,
)
