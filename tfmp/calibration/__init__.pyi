from .measure import calibrate as calibrate
from .report import GradientReport as GradientReport
