"""Casts that an FP16 model could do without, by the structure of its graph alone."""

import onnx
import onnx_ir as ir

from tfmp.converters.onnx.graph.schema import EXACT
from tfmp.converters.onnx.graph.types import infer_types

_FLOATS = (ir.DataType.FLOAT16, ir.DataType.FLOAT)


def wasted_casts(model: onnx.ModelProto) -> list[str]:
    """What each cast between FP16 and FP32 that changes nothing is, one sentence a cast."""
    typed = ir.from_proto(model)
    infer_types(typed)
    found = []
    seen: set[tuple[ir.Value, ir.DataType]] = set()
    for node in typed.graph.all_nodes():
        if not _is_cast(node):
            found += _exact_between_casts(node)
            continue
        source, output = node.inputs[0], node.outputs[0]
        assert source is not None
        if source.dtype == output.dtype:
            found.append(f"{node.name}: to the type it has")
        if source.producer() is not None and _is_cast(source.producer()):
            found.append(f"{node.name}: of a cast")
        if source.const_value is not None and source.const_value.size < 64:
            found.append(f"{node.name}: of a constant")
        if (source, output.dtype) in seen:
            found.append(f"{node.name}: the second of {source.name} to {output.dtype}")
        seen.add((source, output.dtype))
    return found


def _is_cast(node: ir.Node | None) -> bool:
    """Whether `node` is a cast from one of the two types to one of the two."""
    if node is None or node.op_type != "Cast" or node.domain != "":
        return False
    source, output = node.inputs[0], node.outputs[0]
    return source is not None and source.dtype in _FLOATS and output.dtype in _FLOATS


def _exact_between_casts(node: ir.Node) -> list[str]:
    """An op that only moves values, lifted to FP32 and brought back to FP16."""
    if node.op_type not in EXACT or node.domain != "":
        return []
    read = [value for value in node.inputs if value is not None and value.dtype in _FLOATS]
    written = [value for value in node.outputs if value.dtype in _FLOATS]
    readers = [reader for value in written for reader in value.consumers()]
    lifted = read and all(_is_cast(value.producer()) for value in read)
    lowered = readers and all(map(_is_cast, readers))
    kept = any(value.is_graph_output() for value in written)
    if lifted and lowered and not kept:
        return [f"{node.name} ({node.op_type}): between casts, and exact in either type"]
    return []
