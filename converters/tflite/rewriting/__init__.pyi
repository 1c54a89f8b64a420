from .gaps import without_gaps as without_gaps
from .ranges import (
    SUMS as SUMS,
    VANISHING as VANISHING,
    Magnitude as Magnitude,
    Magnitudes as Magnitudes,
    constants as constants,
    measure as measure,
)
from .repair import (
    Repaired as Repaired,
    first_vanishing as first_vanishing,
    repair_model as repair_model,
)
from .scaling import leave_scaling as leave_scaling, rounded_input as rounded_input
