from .checks import doctor as doctor
from .report import DoctorReport as DoctorReport
