"""Ops that neither tf2onnx nor TFLite knows, as ops that both know."""

from collections.abc import Mapping

from tfmp.converters.shared.frameworks import GraphDef, NodeDef

_INT32 = 3  # tensorflow.DataType
_WRITE, _READ, _STACK = "TensorListSetItem", "TensorListGetItem", "TensorListStack"


def plain_forms(graph_def: GraphDef) -> bool:
    """Changes a graph: shapes are taken one by one, and lists filled without a loop are packed.

    Returns:
        Whether anything was changed.
    """
    shapes = _shapes_apart(graph_def)
    lists = _packed_lists(graph_def)
    return shapes or lists


def _shapes_apart(graph_def: GraphDef) -> bool:
    """Makes a Shape for each input of a ShapeN; TensorFlow finds no fixed sizes through that."""
    renamed = {}
    for node in [node for node in graph_def.node if node.op == "ShapeN"]:
        for index, name in enumerate(node.input):
            made = graph_def.node.add(name=f"{node.name}/shape_{index}", op="Shape")
            made.input.append(name)
            for attribute in ("T", "out_type"):
                made.attr[attribute].CopyFrom(node.attr[attribute])
            renamed[f"{node.name}:{index}" if index else node.name] = made.name
        graph_def.node.remove(node)
    if renamed:
        for node in graph_def.node:
            node.input[:] = [renamed.get(name.removesuffix(":0"), name) for name in node.input]
    return bool(renamed)


def _packed_lists(graph_def: GraphDef) -> bool:
    """Makes a Pack of a list whose every element is written at a known place, outside of loops."""
    nodes = {node.name: node for node in graph_def.node}
    changed = False
    for node in list(graph_def.node):
        if node.op not in (_STACK, _READ):
            continue
        written = _written(node.input[0], nodes)
        if node.op == _READ:
            place = _number(node.input[1], nodes)
            if written is None or place is None or place not in written:
                continue
            _become(node, "Identity", [written[place]])
        elif written and sorted(written) == list(range(len(written))):
            _become(node, "Pack", [written[place] for place in sorted(written)])
            node.attr["N"].i = len(written)
        else:
            continue
        changed = True
    return changed


def _written(name: str, nodes: Mapping[str, NodeDef]) -> dict[int, str] | None:
    """The tensors of a list by their places; None where it is filled in another way."""
    written: dict[int, str] = {}
    while True:
        node = nodes.get(name.partition(":")[0])
        if node is None or node.op not in (_WRITE, "Identity", "TensorListReserve"):
            return None
        if node.op == "TensorListReserve":
            return written
        if node.op == _WRITE:
            place = _number(node.input[1], nodes)
            if place is None:
                return None
            written.setdefault(place, node.input[2])  # the last write counts
        name = node.input[0]


def _number(name: str, nodes: Mapping[str, NodeDef]) -> int | None:
    import tensorflow as tf

    node = nodes.get(name.partition(":")[0])
    if node is None or node.op != "Const" or node.attr["dtype"].type != _INT32:
        return None
    value = tf.make_ndarray(node.attr["value"].tensor)
    return int(value) if value.size == 1 else None


def _become(node: NodeDef, op: str, inputs: list[str]) -> None:
    dtype = node.attr["element_dtype"].type
    node.op = op
    node.input[:] = inputs
    node.attr.clear()
    node.attr["T"].type = dtype
