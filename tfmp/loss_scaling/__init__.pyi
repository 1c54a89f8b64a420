from .attach import (
    attach_loss_scale as attach_loss_scale,
    detach_loss_scale as detach_loss_scale,
    disable_mixed_precision_graph_rewrite as disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite as enable_mixed_precision_graph_rewrite,
)
from .gauges import interval_for as interval_for
from .gradient_health import GradientHealth as GradientHealth
from .optimizer import (
    LossScaleOptimizer as LossScaleOptimizer,
    UnscaledLossWarning as UnscaledLossWarning,
)
from .optimizers_of import (
    check_losses_arrived as check_losses_arrived,
    has_own_step as has_own_step,
    scaled_optimizers as scaled_optimizers,
    watch_skips as watch_skips,
)
from .strategies import (
    DynamicLossScale as DynamicLossScale,
    LossScale as LossScale,
    ScheduledLossScale as ScheduledLossScale,
    StaticLossScale as StaticLossScale,
    as_loss_scale as as_loss_scale,
    without_bound as without_bound,
)
from .telemetry import (
    NonFiniteGradientsError as NonFiniteGradientsError,
    Offender as Offender,
    StepCounters as StepCounters,
    TelemetryLog as TelemetryLog,
    read_counters as read_counters,
    read_model_counters as read_model_counters,
)
