from .custom import CustomMetric as CustomMetric, custom_metrics as custom_metrics
from .drift import (
    ACCURACY as ACCURACY,
    REGRESSION as REGRESSION,
    LabelDrift as LabelDrift,
    LabelTotals as LabelTotals,
    label_drift as label_drift,
    label_kind as label_kind,
    measure_labels as measure_labels,
)
