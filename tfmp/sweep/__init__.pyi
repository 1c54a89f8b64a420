from .conductor import MODES as MODES, profile_sweep as profile_sweep
from .report import SUFFIXES as SUFFIXES
