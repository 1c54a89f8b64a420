from .boxes import (
    are_boxes as are_boxes,
    by_boxes as by_boxes,
    in_pairs as in_pairs,
)
from .lists import find_list as find_list, in_order as in_order
