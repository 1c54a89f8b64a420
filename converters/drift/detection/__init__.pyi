from .boxes import (
    Fit as Fit,
    are_boxes as are_boxes,
    by_boxes as by_boxes,
)
from .lists import find_list as find_list, in_order as in_order
from .rows import by_rows as by_rows, pair_rows as pair_rows
