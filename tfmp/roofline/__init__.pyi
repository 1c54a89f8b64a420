from .lowering import (
    forward_and_backward as forward_and_backward,
    without_cudnn as without_cudnn,
    work_of as work_of,
)
from .peaks import find_peaks as find_peaks
from .roof import Roofline as Roofline
from .verdict import Placement as Placement, Setting as Setting
from .work import Work as Work
