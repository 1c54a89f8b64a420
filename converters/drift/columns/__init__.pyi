from .beside import differences as differences
from .lines import POINTS as POINTS, LineGroup as LineGroup, lines_of as lines_of
from .measuring import (
    contrast_rows as contrast_rows,
    distances_by_column as distances_by_column,
)
from .places import OFF as OFF, Off as Off, Places as Places
from .within import lost_within as lost_within, may_vary as may_vary
