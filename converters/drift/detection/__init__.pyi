from .boxes import (
    Fit as Fit,
    are_boxes as are_boxes,
    by_boxes as by_boxes,
)
from .ranking import by_rank as by_rank, find_ranking as find_ranking
from .rows import by_rows as by_rows, pair_rows as pair_rows
from .together import find_group as find_group, in_order as in_order
