from .arms import ARMS as ARMS, DEFAULT_ARMS as DEFAULT_ARMS
from .conductor import compare as compare
from .loading import TASKS as TASKS
from .report import ExperimentReport as ExperimentReport
from .tasks import TEMPLATE as TEMPLATE, Task as Task
