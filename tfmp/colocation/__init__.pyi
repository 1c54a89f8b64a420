from .job import Job as Job
from .mode_names import MODES as MODES
from .run import colocate as colocate
