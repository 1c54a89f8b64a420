from .copies import check_compiled as check_compiled
from .profile import profile_training as profile_training
from .report import check_profile_path as check_profile_path
from .runs import without_retracing_advice as without_retracing_advice
from .tables import table as table
