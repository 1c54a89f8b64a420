from .measure import (
    NoFloat16GradientsError as NoFloat16GradientsError,
    calibrate as calibrate,
)
from .report import SUFFIXES as SUFFIXES, GradientReport as GradientReport
