from .budget import DriftBudget as DriftBudget
from .classes import MOST_CLASSES as MOST_CLASSES, SUMS as SUMS, ClassTable as ClassTable
from .compare import Comparison as Comparison, match as match
from .decisions import (
    ROW_SUM_TOLERANCE as ROW_SUM_TOLERANCE,
    Counted as Counted,
    Decisions as Decisions,
    values_of as values_of,
)
from .detection.boxes import MILLION as MILLION
from .distances import (
    distances_of as distances_of,
)
from .exact import (
    Common as Common,
    Expansion as Expansion,
    fold as fold,
    merge as merge,
    total as total,
)
from .labels.book import Labels as Labels
from .labels.chance import no_better_than_chance as no_better_than_chance
from .labels.custom import CustomMetric as CustomMetric, custom_metrics as custom_metrics
from .labels.drift import (
    LabelDrift as LabelDrift,
    label_drift as label_drift,
    with_metrics as with_metrics,
)
from .labels.metric import Metric as Metric
from .labels.reading import CUSTOM as CUSTOM
from .labels.totals import LabelTotals as LabelTotals, add_labels as add_labels
from .metrics import (
    BOXES as BOXES,
    EQUALITY as EQUALITY,
    OTHER as OTHER,
    WHOLE as WHOLE,
    OutputAccumulator as OutputAccumulator,
    OutputDrift as OutputDrift,
    drift_of as drift_of,
    output_views as output_views,
    sample_errors as sample_errors,
)
from .sketch import (
    UNREADABLE as UNREADABLE,
    Sketch as Sketch,
    packed as packed,
    unpacked as unpacked,
    unreadable as unreadable,
)
from .statistics import (
    Clustered as Clustered,
    binomial_bounds as binomial_bounds,
    drop_at_most as drop_at_most,
    fewest_samples as fewest_samples,
    mcnemar as mcnemar,
    paired_difference as paired_difference,
)
from .tasks import (
    COMPILED as COMPILED,
    DECLARED as DECLARED,
    Kind as Kind,
    Task as Task,
    read_tasks as read_tasks,
    reads_ratios as reads_ratios,
    words_of as words_of,
)
from .totals import (
    Totals as Totals,
    is_floating as is_floating,
)
from .views.tables import (
    Table as Table,
    difference as difference,
    tables_of as tables_of,
)
from .views.view import (
    BETWEEN_OUTPUTS as BETWEEN_OUTPUTS,
    NEAR as NEAR,
    NEAR_END as NEAR_END,
    WRONG as WRONG,
    WRONG_SAMPLES as WRONG_SAMPLES,
    View as View,
    views_of as views_of,
)
