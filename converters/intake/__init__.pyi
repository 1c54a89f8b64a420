from .float64 import Float64Model as Float64Model
from .onnx_file import from_onnx as from_onnx
from .open import check_model_file as check_model_file, open_source as open_source
from .source import (
    AnySource as AnySource,
    OnnxSource as OnnxSource,
    Origin as Origin,
    Source as Source,
    file_sha256 as file_sha256,
    trace_call as trace_call,
    unique_name as unique_name,
)
from .tensorflow import from_saved_model as from_saved_model
