from .baseline import (
    TOLERANCE as TOLERANCE,
    check_run as check_run,
    read_baseline as read_baseline,
)
from .batches import (
    MOST_SAMPLES as MOST_SAMPLES,
    Attempt as Attempt,
    BatchLimit as BatchLimit,
    of_size as of_size,
    search as search,
)
from .copies import ModelOrBuilder as ModelOrBuilder, copy_of as copy_of
from .profile import (
    as_list as as_list,
    check_policies as check_policies,
    profile_training as profile_training,
    reason_of as reason_of,
)
from .report import SUFFIXES as SUFFIXES, ProfileReport as ProfileReport
from .runs import (
    TrainingRun as TrainingRun,
    Variant as Variant,
    memory_of as memory_of,
    steps_in_a_round as steps_in_a_round,
    variants_of as variants_of,
)
