from .constants import (
    ConstantFinding as ConstantFinding,
    clamped as clamped,
    findings_in as findings_in,
)
from .export import (
    TFLiteFile as TFLiteFile,
    export_tflite as export_tflite,
    start_converter as start_converter,
)
from .outputs import tell_apart as tell_apart
