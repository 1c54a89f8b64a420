from .budget import DriftBudget as DriftBudget
from .compare import Comparison as Comparison, Labels as Labels, match as match
from .distances import ULP_LABELS as ULP_LABELS, distances_of as distances_of
from .exact import Expansion as Expansion, merge as merge, total as total
from .labels import (
    ACCURACY as ACCURACY,
    LabelDrift as LabelDrift,
    LabelTotals as LabelTotals,
    label_drift as label_drift,
)
from .metrics import (
    OutputAccumulator as OutputAccumulator,
    OutputDrift as OutputDrift,
    drift_of as drift_of,
)
from .scores import MARGIN_EDGES as MARGIN_EDGES
from .totals import Totals as Totals, is_floating as is_floating
from .verdict.check import Check as Check, Verdict as Verdict, overall as overall
from .verdict.judge import check_overrides as check_overrides, judge as judge
