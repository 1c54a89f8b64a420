from .job import Job as Job
from .run import colocate as colocate
