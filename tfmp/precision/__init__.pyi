from . import layer_tree as layer_tree, policy as policy, reverting as reverting
from .graph_rewriting import (
    graph_rewrite as graph_rewrite,
    switch_graph_rewrite as switch_graph_rewrite,
)
from .keep_float32 import (
    Pattern as Pattern,
    as_patterns as as_patterns,
    check_keep as check_keep,
)
from .layer_tree import (
    ROOT as ROOT,
    LayerNode as LayerNode,
    describe as describe,
    has_call as has_call,
    is_graph as is_graph,
)
from .plan_table import (
    LayerPrecision as LayerPrecision,
    PrecisionPlan as PrecisionPlan,
    layer_table as layer_table,
)
from .policy import plan as plan, policy_scope as policy_scope
from .policy_names import (
    FIXED_POLICIES as FIXED_POLICIES,
    NARROW_DTYPES as NARROW_DTYPES,
    check_policy as check_policy,
    is_narrow as is_narrow,
)
from .reverting import revert as revert
from .tensor_cores import (
    TENSOR_CORE_MULTIPLE as TENSOR_CORE_MULTIPLE,
    TensorCorePath as TensorCorePath,
    has_tensor_cores as has_tensor_cores,
    ineligible_reason as ineligible_reason,
    padded_sizes as padded_sizes,
    sizes_of as sizes_of,
    tensor_core_path as tensor_core_path,
)
