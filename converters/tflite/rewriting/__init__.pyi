from .gaps import without_gaps as without_gaps
from .repair import Overflow as Overflow, overflows as overflows, repair_model as repair_model
