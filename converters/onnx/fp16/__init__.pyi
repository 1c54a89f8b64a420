from .cost import Costs as Costs
from .edges import Shapes as Shapes, split_biases as split_biases
from .gaps import (
    ANY as ANY,
    CUDA as CUDA,
    EVERY as EVERY,
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
from .rewriter import computes_in_fp16 as computes_in_fp16, prepare as prepare, to_fp16 as to_fp16
from .rules import (
    FP16 as FP16,
    FP32 as FP32,
    Decisions as Decisions,
    decide as decide,
    has_typed_body as has_typed_body,
)
