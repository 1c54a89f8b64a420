from .calibration import calibrate as calibrate
from .checkup import doctor as doctor
from .colocation import Job as Job, colocate as colocate
from .experiment import Task as Task, compare as compare
from .fit import MixedPrecision as MixedPrecision
from .loss_scaling import (
    DynamicLossScale as DynamicLossScale,
    LossScaleOptimizer as LossScaleOptimizer,
    ScheduledLossScale as ScheduledLossScale,
    StaticLossScale as StaticLossScale,
    disable_mixed_precision_graph_rewrite as disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite as enable_mixed_precision_graph_rewrite,
)
from .nonfinite import locate_nonfinite as locate_nonfinite
from .precision import (
    PrecisionPlan as PrecisionPlan,
    graph_rewrite as graph_rewrite,
    plan as plan,
    policy_scope as policy_scope,
    revert as revert,
)
from .profiling import (
    profile_sweep as profile_sweep,
    profile_training as profile_training,
)
from .shared.packages import __version__ as __version__
