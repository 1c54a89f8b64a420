from .host import (
    HostScaling as HostScaling,
    add_scaling as add_scaling,
    host_scaling as host_scaling,
    scaled_by_host as scaled_by_host,
)
from .interpreter import Interpreter as Interpreter
from .objects import (
    FLATBUFFER_LIMIT_BYTES as FLATBUFFER_LIMIT_BYTES,
    add_metadata as add_metadata,
    pack as pack,
    unpacked as unpacked,
)
from .reader import (
    PROMISE as PROMISE,
    PROMISED as PROMISED,
    Operator as Operator,
    TFLiteModel as TFLiteModel,
    layer_of as layer_of,
)
from .signature import (
    SIGNATURE as SIGNATURE,
    restore_names as restore_names,
    safe_names as safe_names,
)
