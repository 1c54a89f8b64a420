from .calls import (
    Handler as Handler,
    in_float32 as in_float32,
    losses_kept as losses_kept,
    watched_calls as watched_calls,
)
from .first_op import FirstOp as FirstOp, first_nonfinite_op as first_nonfinite_op
from .measurement import FAILED_DRY_RUN as FAILED_DRY_RUN
from .needs import Evidence as Evidence, entry_points as entry_points, gather as gather
