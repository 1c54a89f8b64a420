from .measure import calibrate as calibrate
from .report import SUFFIXES as SUFFIXES, GradientReport as GradientReport
