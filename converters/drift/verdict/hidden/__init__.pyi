from .ceilings import ceiling_checks as ceiling_checks
from .contrasts import (
    beside_checks as beside_checks,
    contrast_checks as contrast_checks,
    extent_checks as extent_checks,
)
from .flat_samples import flat_sample_checks as flat_sample_checks
from .groups import group_checks as group_checks
from .inner_axes import inner_axis_checks as inner_axis_checks
from .merged_rows import merged_row_checks as merged_row_checks
from .rare_columns import rare_column_checks as rare_column_checks
from .shares import share_checks as share_checks
from .small_values import small_value_checks as small_value_checks
from .wrong_values import wrong_value_checks as wrong_value_checks
