"""Graphs that compute in 16 bits, as a policy such as mixed_float16 leaves them, in float32.

The weights of such a model are float32 already. Few operators of TFLite take 16-bit numbers, and
which tensors may be FP16 in the file is the rewriter's to say, not the training's.
"""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import DTypeLike

from tfmp.converters.intake.saved.loops import READS, rename_functions
from tfmp.converters.shared.frameworks import GraphDef, NodeDef

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
    attributes = [one for node in graph_def.node for one in node.attr.values()]
    kinds = {kind for one in attributes for kind in (one.type, *one.list.type)} & _HALVES.keys()
    if not kinds:
        return ()
    rename_functions(graph_def, "_in_float32")
    casts: dict[str, str] = {}
    computed = []
    for node in list(graph_def.node):
        if node.op not in ("Placeholder", *READS) and node.name not in captured:
            computed.append(node)
        elif (kind := node.attr["dtype"].type) in _HALVES:
            casts[node.name] = _cast(graph_def, node, kind)
    widen(computed, _HALVES, np.float32)
    for node in graph_def.node:
        if node.name not in casts.values():
            node.input[:] = [casts.get(name.removesuffix(":0"), name) for name in node.input]
    widen_functions(graph_def, _HALVES, np.float32)
    return tuple(sorted(_HALVES[kind] for kind in kinds))


def _cast(graph_def: GraphDef, node: NodeDef, kind: int) -> str:
    made = graph_def.node.add(name=f"{node.name}/in_float32", op="Cast")
    made.input.append(node.name)
    made.attr["SrcT"].type, made.attr["DstT"].type = kind, _FLOAT
    return made.name


def widen_functions(graph_def: GraphDef, kinds: Collection[int], dtype: DTypeLike) -> None:
    """Gives the functions of a graph a wider type in place of some; see `widen`."""
    import tensorflow as tf

    wide = tf.as_dtype(dtype).as_datatype_enum
    for function in graph_def.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = wide if argument.type in kinds else argument.type
        widen(function.node_def, kinds, dtype)


def widen(nodes: Iterable[NodeDef], kinds: Collection[int], dtype: DTypeLike) -> None:
    """Gives nodes a wider type in place of some.

    Args:
        nodes: they are changed.
        kinds: the types, by their numbers in TensorFlow.
        dtype: the wider type.
    """
    import tensorflow as tf

    wide = tf.as_dtype(dtype).as_datatype_enum
    for attribute in (one for node in nodes for one in node.attr.values()):
        if attribute.type in kinds:
            attribute.type = wide
        elif attribute.tensor.dtype in kinds:
            values = tf.make_ndarray(attribute.tensor).astype(dtype)
            attribute.tensor.CopyFrom(tf.make_tensor_proto(values))
        elif attribute.list.type:
            attribute.list.type[:] = [
                wide if kind in kinds else kind for kind in attribute.list.type
            ]
