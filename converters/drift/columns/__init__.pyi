from .beside import differences as differences
from .lines import POINTS as POINTS, LineGroup as LineGroup, lines_of as lines_of
from .measuring import (
    contrast_rows as contrast_rows,
    distances_by_column as distances_by_column,
)
from .places import OFF as OFF, Off as Off, Places as Places
from .sample_rows import (
    NUMBERS as NUMBERS,
    looked_at as looked_at,
    no_look as no_look,
    rows_of as rows_of,
)
