from .evidence import entry_points as entry_points, gather as gather
from .facts import FAILED_DRY_RUN as FAILED_DRY_RUN, Evidence as Evidence
from .first_op import FirstOp as FirstOp, first_nonfinite_op as first_nonfinite_op
from .watched_calls import losses_kept as losses_kept, policies_kept as policies_kept
