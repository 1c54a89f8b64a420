"""Loops of recurrent layers in SavedModels, in the form that a fresh trace of them would have.

Keras 2 traced them for any number of samples, and their lists and states say so by constants and
attributes that no later shape changes. TFLite takes only lists whose elements have a known shape.
And their bodies read variables: in a file these would stay variables, which FP16 kernels do not
know.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from tfmp.converters.shared.frameworks import AttrValue, FunctionDef, GraphDef, NodeDef

READS = ("ReadVariableOp", "ResourceGather")

_RESERVE, _STACK = "TensorListReserve", "TensorListStack"

# Place of the input that tells the shape of an element.
_SHAPES = {_RESERVE: 0, "EmptyTensorList": 0, "TensorListFromTensor": 1, _STACK: 1}
_SHAPES_INSIDE = {**_SHAPES, "TensorListGetItem": 2}

Shape = list[int]


def with_samples(
    graph_def: GraphDef, samples: int, of_loops: Mapping[str, int] = MappingProxyType({})
) -> GraphDef:
    """The graph with lists and states of loops that have a number of samples.

    Args:
        graph_def: a graph, inner functions inlined but for those of loops.
        samples: the number of samples, the first size of what the lists hold.
        of_loops: another number by the name of the loop, as a layer has that works on each step of
            each sample.
    """
    changed: GraphDef = type(graph_def)()
    changed.CopyFrom(graph_def)
    rename_functions(changed, f"_of_{samples}")
    nodes = {node.name: node for node in changed.node}
    stacked = {name: shape for name, shape in _stacked(nodes) if _first_is_open(shape)}
    owners = _owners(changed)
    made: list[tuple[NodeDef, int, Shape]] = []
    for node in changed.node:
        if node.op in _SHAPES:
            place = _SHAPES[node.op]
            shape = _open_first(nodes.get(_plain(node.input[place])))
            shape = shape or (stacked.get(node.name) if node.op == _RESERVE else None)
            if shape is not None:
                first = of_loops.get(owners.get(node.name, ""), samples)
                made.append((node, place, [first, *shape[1:]]))
    for node, place, shape in made:
        name = f"{node.name}/element_shape_of_{shape[0]}"
        become_constant(changed.node.add(name=name), shape)
        node.input[place] = name
    for function in changed.library.function:
        first = of_loops.get(owners.get(function.signature.name, ""), samples)
        inside = {node.name: node for node in function.node_def}
        for node in function.node_def:
            if node.op in _SHAPES_INSIDE:
                constant = inside.get(_plain(node.input[_SHAPES_INSIDE[node.op]]))
                shape = _open_first(constant)
                if constant is not None and shape is not None:
                    become_constant(constant, [first, *shape[1:]])
        for attributes in function.arg_attr.values():
            _fix_first(attributes.attr, "_output_shapes", first)
    for loop in _loops(changed):
        _fix_first(loop.attr, "output_shapes", of_loops.get(loop.name, samples))
    return changed


def lists_read(graph_def: GraphDef) -> Iterable[tuple[str, str]]:
    """The loops that read a list step by step, and the tensor that this list was made of."""
    nodes = {node.name: node for node in graph_def.node}
    for loop in _loops(graph_def):
        for name in loop.input:
            made = nodes.get(_plain(name))
            if made is not None and made.op == "TensorListFromTensor":
                yield loop.name, made.input[0]


def _owners(graph_def: GraphDef) -> dict[str, str]:
    """The loop that lists and functions belong to, by their names."""
    owners = {}
    for loop in _loops(graph_def):
        for name in loop.input:
            owners[_plain(name)] = loop.name
        for part in ("cond", "body"):
            owners[loop.attr[part].func.name] = loop.name
    for node in graph_def.node:
        if node.op == _STACK and node.input[0].partition(":")[0] in owners.values():
            owners[node.name] = _plain(node.input[0])
    return owners


def know_elements(graph_def: GraphDef) -> None:
    """Changes a graph: lists that loops fill have the elements that a stack of them takes.

    Args:
        graph_def: a graph, inner functions inlined but for those of loops.
    """
    nodes = {node.name: node for node in graph_def.node}
    for name, shape in _stacked(nodes):
        node = nodes[name]
        if node.op == _RESERVE and -1 not in shape:
            element = f"{name}/element_shape_of_all"
            become_constant(graph_def.node.add(name=element), shape)
            node.input[_SHAPES[_RESERVE]] = element


def _fix_first(attributes: Mapping[str, AttrValue], name: str, samples: int) -> None:
    """Gives the first size of each shape in an attribute that is open there, and only there."""
    for shape in attributes[name].list.shape if name in attributes else ():
        sizes = [dim.size for dim in shape.dim]
        if len(sizes) > 1 and sizes[0] == -1 and min(sizes[1:]) >= 0:
            shape.dim[0].size = samples


def read_outside(graph_def: GraphDef, written: Collection[str]) -> None:
    """Changes a graph: loops that read variables get their values instead.

    Args:
        graph_def: a graph, inner functions inlined but for those of loops.
        written: nodes of variables that the graph writes; reading these has its time.
    """
    rename_functions(graph_def, "_on_values")
    _own_functions(graph_def)
    functions = {function.signature.name: function for function in graph_def.library.function}
    for loop in _loops(graph_def):
        cond, body = (functions[loop.attr[part].func.name] for part in ("cond", "body"))
        for index, argument in enumerate(body.signature.input_arg):
            reads = _only_reads(body, argument.name)
            variable = loop.attr["T"].list.type[index] == _RESOURCE
            if not (reads and variable) or _plain(loop.input[index]) in written:
                continue
            dtype = reads[0].attr["dtype"].type
            value = graph_def.node.add(name=f"{loop.name}/value_{index}", op="ReadVariableOp")
            value.input.append(loop.input[index])
            value.attr["dtype"].type = dtype
            loop.input[index] = value.name
            loop.attr["T"].list.type[index] = dtype
            for read in reads:
                become_read(read, body.node_def.add, read.input[0], ":output:0")
                _rename_output(body, read.name)
            for function in (cond, body):
                function.signature.input_arg[index].type = dtype
                function.arg_attr.pop(index, None)
                function.resource_arg_unique_id.pop(index, None)
            body.signature.output_arg[index].type = dtype
            loop.attr["output_shapes"].list.shape[index].unknown_rank = True
        loop.attr.pop("_read_only_resource_inputs", None)


def become_read(node: NodeDef, add: Callable[..., NodeDef], value: str, result: str = "") -> None:
    """Makes a node that reads a variable, or gathers from it, do so with a value instead.

    Args:
        node: a ReadVariableOp or a ResourceGather.
        add: adds a node to the node's graph or function.
        value: name of the value.
        result: the end of the names of results, as the graph or function writes them.
    """
    import tensorflow as tf

    dtype, indices = node.attr["dtype"].type, node.attr["Tindices"].type
    batch_dims, gathers = node.attr["batch_dims"].i, node.op == "ResourceGather"
    node.attr.clear()
    if not gathers:
        node.op = "Identity"
        node.input[:] = [value]
        node.attr["T"].type = dtype
        return
    axis = add(name=f"{node.name}/axis")
    become_constant(axis, batch_dims)
    node.op = "GatherV2"
    node.input[:] = [value, node.input[1], f"{axis.name}{result}"]
    node.attr["Tparams"].type = dtype
    node.attr["Tindices"].type = indices
    node.attr["Taxis"].type = tf.int32.as_datatype_enum
    node.attr["batch_dims"].i = batch_dims


def _own_functions(graph_def: GraphDef) -> None:
    """Gives loops that share functions, as those of a layer called twice do, copies of them."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    seen: Counter[str] = Counter()
    for loop in _loops(graph_def):
        for part in ("cond", "body"):
            name = loop.attr[part].func.name
            seen[name] += 1
            if seen[name] > 1:
                copy = graph_def.library.function.add()
                copy.CopyFrom(functions[name])
                copy.signature.name = f"{name}_{seen[name]}"
                loop.attr[part].func.name = copy.signature.name


_RESOURCE = 20  # types.proto: DT_RESOURCE


def _only_reads(body: FunctionDef, argument: str) -> list[NodeDef]:
    """The nodes that read a variable; none if anything else takes it."""
    readers = [node for node in body.node_def if argument in map(_plain, node.input)]
    return readers if all(node.op in READS for node in readers) else []


def _rename_output(body: FunctionDef, name: str) -> None:
    """Lets the readers of a node that became an identity find its result."""
    for node in body.node_def:
        for place, read in enumerate(node.input):
            if read == f"{name}:value:0":
                node.input[place] = f"{name}:output:0"
    for result, read in body.ret.items():
        if read == f"{name}:value:0":
            body.ret[result] = f"{name}:output:0"


def _loops(graph_def: GraphDef) -> list[NodeDef]:
    return [node for node in graph_def.node if node.op in ("While", "StatelessWhile")]


def rename_functions(graph_def: GraphDef, ending: str) -> None:
    """TensorFlow knows functions by their names, and has those of other numbers of samples."""
    del graph_def.library.gradient[:]  # they name functions, too, and inference needs none
    functions = graph_def.library.function
    names = {function.signature.name: function.signature.name + ending for function in functions}
    for function in functions:
        function.signature.name = names[function.signature.name]
    for body in (graph_def.node, *(function.node_def for function in functions)):
        for node in body:
            node.op = names.get(node.op, node.op)
            for value in node.attr.values():
                called = [value.func] if value.HasField("func") else value.list.func
                for each in called:
                    each.name = names.get(each.name, each.name)


def _stacked(nodes: Mapping[str, NodeDef]) -> Iterable[tuple[str, Shape]]:
    """Lists that a loop fills, with the shape that a stack of them takes; -1 is an open size."""
    for stack in nodes.values():
        loop = nodes.get(_plain(stack.input[0])) if stack.op == _STACK else None
        if loop is None or loop.op not in ("While", "StatelessWhile"):
            continue
        shape = _shape(nodes.get(_plain(stack.input[_SHAPES[_STACK]])))
        index = int(stack.input[0].partition(":")[2] or 0)
        if shape is not None:
            yield _plain(loop.input[index]), shape


def _open_first(constant: NodeDef | None) -> Shape | None:
    """A constant shape of which the first size alone is open."""
    shape = _shape(constant)
    return shape if shape is not None and _first_is_open(shape) else None


def _first_is_open(shape: Shape) -> bool:
    return shape[:1] == [-1] and -1 not in shape[1:]


def _shape(constant: NodeDef | None) -> Shape | None:
    """A constant shape; None if it is computed, or not even the number of axes is known."""
    from tensorflow import make_ndarray

    if constant is None or constant.op != "Const":
        return None
    shape = make_ndarray(constant.attr["value"].tensor)
    return [int(size) for size in shape] if shape.ndim == 1 else None


def become_constant(node: NodeDef, value: int | Shape) -> None:
    """Makes a node a constant of int32."""
    import tensorflow as tf

    node.op = "Const"
    node.attr["dtype"].type = tf.int32.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int32))


def _plain(name: str) -> str:
    return name.partition(":")[0].removeprefix("^")
