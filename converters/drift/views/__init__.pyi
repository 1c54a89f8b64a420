from .evidence import Evidence as Evidence
from .tables import (
    Table as Table,
    difference as difference,
    first_axis as first_axis,
    tables_of as tables_of,
)
from .view import (
    BETWEEN_OUTPUTS as BETWEEN_OUTPUTS,
    NEAR_END as NEAR_END,
    WRONG as WRONG,
    WRONG_SAMPLES as WRONG_SAMPLES,
    View as View,
    near_end as near_end,
    views_of as views_of,
)
