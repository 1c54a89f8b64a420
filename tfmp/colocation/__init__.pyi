from .job import Job as Job
from .mode_names import FUSED as FUSED, MODES as MODES, NO_LONGER_FUSED as NO_LONGER_FUSED
from .report import ColocateReport as ColocateReport
from .run import colocate as colocate
