from .evidence import Evidence as Evidence
from .tables import (
    Table as Table,
    outlying as outlying,
    tables_of as tables_of,
)
from .view import (
    BETWEEN_SAMPLES as BETWEEN_SAMPLES,
    HALF as HALF,
    View as View,
    near_end as near_end,
    place_view as place_view,
    views_of as views_of,
    without_ends as without_ends,
)
