from .cost import Costs as Costs
from .edges import split_biases as split_biases
from .gaps import (
    ANY as ANY,
    BF16_OPS as BF16_OPS,
    CUDA as CUDA,
    EVERY as EVERY,
    RUNTIMES as RUNTIMES,
    TARGETS as TARGETS,
    TENSORRT as TENSORRT,
    WEBGPU as WEBGPU,
    check_targets as check_targets,
)
from .provenance import (
    SESSION_OPTIONS as SESSION_OPTIONS,
    TARGET as TARGET,
    describe_origin as describe_origin,
)
from .rewriter import computes_in_half as computes_in_half, prepare as prepare, to_fp16 as to_fp16
from .rules import (
    at_edges as at_edges,
    decide as decide,
)
