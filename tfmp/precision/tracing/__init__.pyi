from .dry_run import (
    losses_kept as losses_kept,
    policies_kept as policies_kept,
    remember_first_batch as remember_first_batch,
)
from .hazards import LONG_SUM as LONG_SUM
from .traced_facts import entry_points as entry_points, gather as gather
