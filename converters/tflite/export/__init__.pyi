from .constants import (
    ConstantFinding as ConstantFinding,
    clamped as clamped,
    constant_findings as constant_findings,
)
from .export import (
    export_tflite as export_tflite,
    start_converter as start_converter,
    weight_bytes as weight_bytes,
)
