from .profile import profile_training as profile_training
from .report import SUFFIXES as SUFFIXES
