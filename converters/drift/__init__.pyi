from .budget import DriftBudget as DriftBudget
from .classes import SUMS as SUMS
from .compare import Comparison as Comparison, Labels as Labels, match as match
from .decisions import Decisions as Decisions
from .distances import ULP_LABELS as ULP_LABELS, distances_of as distances_of
from .exact import Expansion as Expansion, merge as merge, total as total
from .labels import (
    ACCURACY as ACCURACY,
    REGRESSION as REGRESSION,
    CustomMetric as CustomMetric,
    LabelDrift as LabelDrift,
    LabelTotals as LabelTotals,
    custom_metrics as custom_metrics,
    label_drift as label_drift,
)
from .metrics import (
    BOXES as BOXES,
    EQUALITY as EQUALITY,
    OutputAccumulator as OutputAccumulator,
    OutputDrift as OutputDrift,
    drift_of as drift_of,
    sample_errors as sample_errors,
)
from .scores import MARGIN_EDGES as MARGIN_EDGES
from .statistics import (
    Clustered as Clustered,
    binomial_bounds as binomial_bounds,
    fewest_samples as fewest_samples,
    mean_at_most as mean_at_most,
    mean_bounds as mean_bounds,
    paired_difference as paired_difference,
    ratio_bounds as ratio_bounds,
)
from .tasks import DECIDING as DECIDING, Kind as Kind, Task as Task, read_tasks as read_tasks
from .totals import SHARES as SHARES, Totals as Totals, is_floating as is_floating
