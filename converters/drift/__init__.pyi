from .budget import DriftBudget as DriftBudget
from .compare import Comparison as Comparison, Labels as Labels, match as match
from .distances import ULP_LABELS as ULP_LABELS, distances_of as distances_of
from .exact import Expansion as Expansion, merge as merge, total as total
from .labels import (
    ACCURACY as ACCURACY,
    CustomMetric as CustomMetric,
    REGRESSION as REGRESSION,
    LabelDrift as LabelDrift,
    LabelTotals as LabelTotals,
    custom_metrics as custom_metrics,
    label_drift as label_drift,
)
from .metrics import (
    EQUALITY as EQUALITY,
    OutputAccumulator as OutputAccumulator,
    OutputDrift as OutputDrift,
    drift_of as drift_of,
)
from .scores import MARGIN_EDGES as MARGIN_EDGES
from .statistics import (
    binomial_bounds as binomial_bounds,
    fewest_samples as fewest_samples,
    mean_bounds as mean_bounds,
    paired_difference as paired_difference,
)
from .totals import Totals as Totals, is_floating as is_floating
