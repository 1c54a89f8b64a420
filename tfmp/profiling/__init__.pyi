from .baseline import (
    TOLERANCE as TOLERANCE,
    check_run as check_run,
    read_baseline as read_baseline,
)
from .profile import profile_training as profile_training
from .report import ProfileReport as ProfileReport
from .sizes import SweepReport as SweepReport
from .sweep import MODES as MODES, profile_sweep as profile_sweep
