from .constants import (
    ConstantFinding as ConstantFinding,
    confirmed as confirmed,
    constant_findings as constant_findings,
)
from .export import (
    FLATBUFFER_LIMIT_BYTES as FLATBUFFER_LIMIT_BYTES,
    export_tflite as export_tflite,
    start_converter as start_converter,
    weight_bytes as weight_bytes,
)
