"""Reads lookup tables of integers, as `keras.layers.IntegerLookup` has them, as arrays."""

from collections.abc import Mapping

import numpy as np

from tfmp.converters.shared.frameworks import GraphDef
from tfmp.shared.backend import Tensor

_FIND = "LookupTableFindV2"
_INTEGERS = ("int32", "int64")

# Keys and values, by the shared name of the table's node.
Tables = dict[bytes, tuple[np.ndarray, np.ndarray]]


def take_tables(graph_def: GraphDef, captures: Mapping[str, Tensor]) -> Tables:
    """Reads the tables that a graph looks integers up in, and makes nodes of their handles.

    Args:
        graph_def: the graph, which is changed: the node of a table's handle becomes a HashTableV2.
        captures: TensorFlow's handles by the names of the nodes that stand for them.

    Returns:
        The tables in the form that tf2onnx takes.
    """
    import tensorflow as tf

    nodes = {node.name: node for node in graph_def.node}
    tables: Tables = {}
    for find in [node for node in graph_def.node if node.op == _FIND]:
        kinds = [tf.as_dtype(find.attr[name].type) for name in ("Tin", "Tout")]
        holder = nodes[find.input[0].partition(":")[0]]
        if any(kind.name not in _INTEGERS for kind in kinds) or holder.name not in captures:
            continue
        keys, values = tf.raw_ops.LookupTableExportV2(
            table_handle=captures[holder.name], Tkeys=kinds[0], Tvalues=kinds[1]
        )
        holder.op = "HashTableV2"
        holder.attr.clear()
        for name, kind in zip(("key_dtype", "value_dtype"), kinds, strict=True):
            holder.attr[name].type = kind.as_datatype_enum
        shared = holder.name.encode()
        holder.attr["shared_name"].s = shared
        # A table has no order of its own; the same model is to give the same bytes.
        order = np.argsort(np.asarray(keys), kind="stable")
        tables[shared] = (np.asarray(keys)[order], np.asarray(values)[order])
    return tables


def unread(graph_def: GraphDef, tables: Tables) -> list[str]:
    """Names of the nodes that look values up in other tables than these."""
    finds = [node for node in graph_def.node if node.op == _FIND]
    return [node.name for node in finds if node.input[0].partition(":")[0].encode() not in tables]
