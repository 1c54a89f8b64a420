from .float64 import Float64Model as Float64Model, in_float64 as in_float64
from .hints import OutputHint as OutputHint
from .keras_model import keras_forward as keras_forward
from .open import (
    ModelRequest as ModelRequest,
    is_open as is_open,
    open_source as open_source,
    path_of as path_of,
    request_of as request_of,
)
from .probing import probe as probe
from .saved.branches import choices_kept as choices_kept, two_by_two as two_by_two
from .source import (
    AnySource as AnySource,
    OnnxSource as OnnxSource,
    Origin as Origin,
    Source as Source,
    file_sha256 as file_sha256,
    trace_call as trace_call,
    unique_name as unique_name,
)
