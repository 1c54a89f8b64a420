"""Graphs that compute in 16 bits, as a policy such as mixed_float16 leaves them, in float32.

The weights of such a model are float32 already. Few operators of TFLite take 16-bit numbers, and
which tensors may be FP16 in the file is the rewriter's to say, not the training's.
"""

from collections.abc import Collection

from tfmp.converters.intake.saved.loops import READS, rename_functions
from tfmp.converters.shared.frameworks import AttrValue, GraphDef, NodeDef

_FLOAT = 1  # tensorflow.DataType
_HALVES = {14: "bfloat16", 19: "float16"}


def in_float32(graph_def: GraphDef, captured: Collection[str]) -> tuple[str, ...]:
    """Changes a graph: everything that is computed in 16 bits is computed in float32.

    Arguments, variables and captured tensors keep their types, and are cast.

    Args:
        graph_def: a graph, inner functions inlined but for those of loops and branches.
        captured: names of nodes whose values come from outside.

    Returns:
        Names of the types that were replaced.
    """
    kinds = {kind for node in graph_def.node for kind in map(_half, node.attr.values()) if kind}
    if not kinds:
        return ()
    rename_functions(graph_def, "_in_float32")
    casts: dict[str, str] = {}
    for node in list(graph_def.node):
        if node.op in ("Placeholder", *READS) or node.name in captured:
            if kind := node.attr["dtype"].type * (node.attr["dtype"].type in _HALVES):
                casts[node.name] = _cast(graph_def, node, kind)
        else:
            _widen(node)
    for node in graph_def.node:
        if node.name not in casts.values():
            node.input[:] = [casts.get(name.removesuffix(":0"), name) for name in node.input]
    for function in graph_def.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = _FLOAT if argument.type in _HALVES else argument.type
        for node in function.node_def:
            _widen(node)
    return tuple(sorted(_HALVES[kind] for kind in kinds))


def _half(attribute: AttrValue) -> int | None:
    """The 16-bit type that an attribute names, if it does."""
    return next((kind for kind in (attribute.type, *attribute.list.type) if kind in _HALVES), None)


def _cast(graph_def: GraphDef, node: NodeDef, kind: int) -> str:
    made = graph_def.node.add(name=f"{node.name}/in_float32", op="Cast")
    made.input.append(node.name)
    made.attr["SrcT"].type, made.attr["DstT"].type = kind, _FLOAT
    return made.name


def _widen(node: NodeDef) -> None:
    import numpy as np
    import tensorflow as tf

    for attribute in node.attr.values():
        if attribute.type in _HALVES:
            attribute.type = _FLOAT
        elif attribute.tensor.dtype in _HALVES:
            values = tf.make_ndarray(attribute.tensor).astype(np.float32)
            attribute.tensor.CopyFrom(tf.make_tensor_proto(values))
        elif attribute.list.type:
            attribute.list.type[:] = [
                _FLOAT if kind in _HALVES else kind for kind in attribute.list.type
            ]
