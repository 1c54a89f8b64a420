from .job import Job as Job
from .mode_names import MODES as MODES
from .report import ColocateReport as ColocateReport
from .run import colocate as colocate
