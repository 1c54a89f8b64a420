from .boxes import (
    SCORE as SCORE,
    Fit as Fit,
    are_detections as are_detections,
    by_boxes as by_boxes,
)
from .rows import by_rows as by_rows, pair_rows as pair_rows
from .together import find_group as find_group, in_order as in_order
