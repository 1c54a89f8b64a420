from .budget import DriftBudget as DriftBudget
from .classes import (
    MILLION as MILLION,
    MOST_CLASSES as MOST_CLASSES,
    ClassTable as ClassTable,
)
from .compare import Comparison as Comparison, match as match
from .decisions import (
    ROW_SUM_TOLERANCE as ROW_SUM_TOLERANCE,
    TIE as TIE,
    Decisions as Decisions,
    count_decisions as count_decisions,
)
from .distances import measure_distances as measure_distances
from .exact import (
    Common as Common,
    Expansion as Expansion,
    fold as fold,
    merge as merge,
    total as total,
)
from .labels.book import Labels as Labels
from .labels.custom import CustomMetric as CustomMetric, custom_metrics as custom_metrics
from .labels.drift import (
    LabelDrift as LabelDrift,
    kinds_of as kinds_of,
    label_drift as label_drift,
    with_metrics as with_metrics,
)
from .labels.metric import Metric as Metric, difference_bounds as difference_bounds
from .labels.reading import CUSTOM as CUSTOM
from .labels.totals import LabelTotals as LabelTotals, add_labels as add_labels
from .metrics import (
    BOXES as BOXES,
    EQUALITY as EQUALITY,
    OTHER as OTHER,
    WHOLE as WHOLE,
    OutputDrift as OutputDrift,
    drift_of as drift_of,
    output_views as output_views,
    sample_errors as sample_errors,
    set_aside as set_aside,
)
from .sketch import (
    Sketch as Sketch,
    Written as Written,
    distinct as distinct,
    packed as packed,
    unpacked as unpacked,
)
from .statistics import (
    binomial_bounds as binomial_bounds,
    binomial_p as binomial_p,
    fewest_samples as fewest_samples,
    less_mean as less_mean,
    tail_of as tail_of,
)
from .tasks import (
    COMPILED as COMPILED,
    DECLARED as DECLARED,
    YES_OR_NO as YES_OR_NO,
    Kind as Kind,
    Task as Task,
    is_floating as is_floating,
    read_tasks as read_tasks,
)
from .totals import (
    Totals as Totals,
    measure as measure,
)
from .views.tables import (
    FEW_COLUMNS as FEW_COLUMNS,
    Table as Table,
    difference as difference,
    tables_of as tables_of,
)
from .views.view import (
    BETWEEN_OUTPUTS as BETWEEN_OUTPUTS,
    BETWEEN_SAMPLES as BETWEEN_SAMPLES,
    FLAT as FLAT,
    NEAR as NEAR,
    NEAR_END as NEAR_END,
    WRONG as WRONG,
    WRONG_SAMPLES as WRONG_SAMPLES,
    View as View,
    views_of as views_of,
)
