from . import replay as replay
from .finding import NonFinite as NonFinite
from .forward import search_data as search_data
from .locate import locate_nonfinite as locate_nonfinite
from .replay import (
    Call as Call,
    CallKey as CallKey,
    Gradients as Gradients,
    ReplayedStep as ReplayedStep,
)
from .rounding import RoundedOff as RoundedOff, rounded_off as rounded_off
from .value_range import is_float as is_float
from .vanishing import LostGradient as LostGradient, lost_gradients as lost_gradients
