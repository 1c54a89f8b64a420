from .budget import DriftBudget as DriftBudget
from .classes import MOST_CLASSES as MOST_CLASSES, SUMS as SUMS, ClassTable as ClassTable
from .columns.bands import BANDS as BANDS
from .columns.beside import pairs_beside as pairs_beside, size_beside as size_beside
from .columns.ceilings import (
    CEILING_LEVELS as CEILING_LEVELS,
    CEILINGS as CEILINGS,
    ceiling_ends as ceiling_ends,
)
from .columns.measuring import contrast_pairs as contrast_pairs
from .columns.places import (
    LEVELS as LEVELS,
    OFF as OFF,
    Places as Places,
    level_ends as level_ends,
)
from .columns.sample_rows import COLUMNS as COLUMNS, MARKS as MARKS, WITHIN as WITHIN
from .compare import Comparison as Comparison, match as match
from .decisions import (
    ROW_SUM_TOLERANCE as ROW_SUM_TOLERANCE,
    Counted as Counted,
    Decisions as Decisions,
)
from .detection.boxes import MILLION as MILLION
from .detection.turns import (
    LENGTHS as LENGTHS,
    QUATERNION as QUATERNION,
    ROTATION as ROTATION,
    ROUNDED as ROUNDED,
    range_begins as range_begins,
)
from .distances import (
    ULP_LABELS as ULP_LABELS,
    Along as Along,
    Distances as Distances,
    TotalsFields as TotalsFields,
    distances_of as distances_of,
    measure_distances as measure_distances,
)
from .exact import (
    Common as Common,
    Expansion as Expansion,
    Histogram as Histogram,
    banded_by_slot as banded_by_slot,
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
from .labels.scores import ACCURACY as ACCURACY
from .labels.totals import LabelTotals as LabelTotals, add_labels as add_labels
from .metrics import (
    ADDS_UP as ADDS_UP,
    BOXES as BOXES,
    EQUALITY as EQUALITY,
    THRESHOLD as THRESHOLD,
    THRESHOLD_ZERO as THRESHOLD_ZERO,
    OutputAccumulator as OutputAccumulator,
    OutputDrift as OutputDrift,
    changes_bits as changes_bits,
    drift_of as drift_of,
    sample_errors as sample_errors,
)
from .scores import MARGIN_EDGES as MARGIN_EDGES, is_forbidding as is_forbidding
from .sketch import (
    UNREADABLE as UNREADABLE,
    Sketch as Sketch,
    packed as packed,
    unpacked as unpacked,
    unreadable as unreadable,
)
from .slices import MOST_SLICES as MOST_SLICES, Slices as Slices
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
    NAMED as NAMED,
    Kind as Kind,
    Task as Task,
    names_ids as names_ids,
    names_labels as names_labels,
    names_scores as names_scores,
    read_tasks as read_tasks,
    reads_ratios as reads_ratios,
    words_of as words_of,
)
from .totals import (
    Totals as Totals,
    is_floating as is_floating,
    without_off as without_off,
    without_turned as without_turned,
)
