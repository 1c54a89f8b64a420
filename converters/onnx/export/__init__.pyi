from .export import (
    check_export as check_export,
    check_opset as check_opset,
    export_onnx as export_onnx,
    to_opset as to_opset,
    with_rewrites as with_rewrites,
)
from .layers import without_marks as without_marks
