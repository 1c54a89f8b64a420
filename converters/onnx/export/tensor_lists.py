"""Turns TensorFlow's lists into forms that tf2onnx follows: carry and results of `keras.ops.scan`.

tf2onnx knows the lists that a loop fills step by step and the lists that it reads from. A list that
a loop rewrites in place has no ONNX form, but a list of one tensor is an ordinary loop variable.
"""

from tfmp.converters.shared.frameworks import FunctionDef, GraphDef, NodeDef

_MAKE, _READ, _WRITE = "TensorListReserve", "TensorListGetItem", "TensorListSetItem"
_STACK = "TensorListStack"


def unwrap_single_lists(graph_def: GraphDef) -> None:
    """Changes a TensorFlow graph: lists of one tensor that enter loops become the tensor.

    Lists that nothing fills, of a scan without outputs, become a number.
    """
    _drop_unread_stacks(graph_def)
    functions = {function.signature.name: function for function in graph_def.library.function}
    nodes = {node.name: node for node in graph_def.node}
    for loop in _loops(graph_def):
        parts = [functions[loop.attr[part].func.name] for part in ("cond", "body")]
        for index, name in enumerate(loop.input):
            made = nodes[_node(name)]
            readers = [node for node in graph_def.node if f"{loop.name}:{index}" in node.input]
            dtype = made.attr["element_dtype"].type
            if _writes_single_list(made, nodes):
                _become_identity(made, operand=2)
                for reader in readers:
                    if reader.op == _READ:
                        _become_identity(reader, operand=0)
            elif made.op == _MAKE and not readers and _passes_through(parts[1], index):
                _become_zero(made)
            else:
                continue
            _retype(loop, parts, index, dtype)


def turn_backward_stacks(graph_def: GraphDef) -> None:
    """Changes a TensorFlow graph: the stacks of a loop that counts down are turned round.

    tf2onnx stacks the results of a loop in the order of writing and ignores the index.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    nodes = {node.name: node for node in graph_def.node}
    for loop in _loops(graph_def):
        body = functions[loop.attr["body"].func.name]
        producers = {node.name: node for node in body.node_def}
        for index, argument in enumerate(body.signature.input_arg):
            if _passes_through(body, index) and _node(loop.input[index]) in nodes:
                producers[argument.name] = nodes[_node(loop.input[index])]
        arguments = [argument.name for argument in body.signature.input_arg]
        for index, name in enumerate(arguments):
            writers = [n for n in body.node_def if n.op == _WRITE and n.input[0] == name]
            if len(writers) == 1 and _counts_down(body, producers, writers[0].input[1]):
                for node in list(graph_def.node):
                    if node.op == _STACK and node.input[0] == f"{loop.name}:{index}":
                        _turn_round(graph_def, node)


def _counts_down(body: FunctionDef, producers: dict[str, NodeDef], index: str) -> bool:
    """Whether the value that indexes a list falls by one from step to step."""
    return _slope(body, producers, index) == -1


def _slope(body: FunctionDef, producers: dict[str, NodeDef], value: str) -> int | None:
    """The number that each step of a loop adds to a value; None if it is unknown."""
    variables = {argument.name: i for i, argument in enumerate(body.signature.input_arg)}
    if value in variables:
        following = body.ret[body.signature.output_arg[variables[value]].name]
        if following == value:
            return 0
        node = _behind(producers, following)
        if node is None or node.op not in ("Sub", "AddV2") or node.input[0] != value:
            return None
        step = _constant(_behind(producers, node.input[1]))
        return None if step is None else step if node.op == "AddV2" else -step
    node = _behind(producers, value)
    if node is None or node.op not in ("Const", "Sub", "AddV2"):
        return None
    if node.op == "Const":
        return 0
    one, other = (_slope(body, producers, name) for name in node.input[:2])
    if one is None or other is None:
        return None
    return one + other if node.op == "AddV2" else one - other


def _behind(producers: dict[str, NodeDef], name: str) -> NodeDef | None:
    """The node that makes a value, behind identities."""
    node = producers.get(_node(name))
    while node is not None and node.op == "Identity":
        node = producers.get(_node(node.input[0]))
    return node


def _constant(node: NodeDef | None) -> int | None:
    import tensorflow as tf

    if node is None or node.op != "Const":
        return None
    return int(tf.make_ndarray(node.attr["value"].tensor))


def write_firsts_apart(graph_def: GraphDef) -> None:
    """Changes a TensorFlow graph: a list with one element before a loop fills it gets it behind.

    `tf.scan` without an initializer writes its first element so; backwards, that is the last one.
    """
    nodes = {node.name: node for node in graph_def.node}
    for loop in _loops(graph_def):
        for index, name in enumerate(loop.input):
            writer = nodes.get(_node(name))
            if writer is None or writer.op != _WRITE:
                continue
            made, place = nodes[_node(writer.input[0])], _constant(nodes[_node(writer.input[1])])
            stacks = [
                node
                for node in graph_def.node
                if node.op == _STACK and node.input[0] == f"{loop.name}:{index}"
            ]
            if made.op != _MAKE or place is None or not stacks:
                continue
            loop.input[index] = writer.input[0]
            for stack in stacks:
                _add_row(graph_def, stack, writer.input[2], behind=place > 0)


def _add_row(graph_def: GraphDef, stack: NodeDef, value: str, behind: bool) -> None:
    """Lets the readers of a stack read it with one more row."""
    import tensorflow as tf

    name, stack.name = stack.name, f"{stack.name}_of_loop"
    stack.attr["num_elements"].i = -1
    dtype = stack.attr["element_dtype"].type
    axis = graph_def.node.add(name=f"{name}_first_axis", op="Const")
    axis.attr["dtype"].type = tf.int32.as_datatype_enum
    axis.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(0, tf.int32))
    row = graph_def.node.add(name=f"{name}_row", op="ExpandDims")
    row.input.extend([value, axis.name])
    row.attr["T"].type, row.attr["Tdim"].type = dtype, tf.int32.as_datatype_enum
    whole = graph_def.node.add(name=name, op="ConcatV2")
    whole.input.extend([stack.name, row.name] if behind else [row.name, stack.name])
    whole.input.append(axis.name)
    whole.attr["N"].i = 2
    whole.attr["T"].type, whole.attr["Tidx"].type = dtype, tf.int32.as_datatype_enum


def _turn_round(graph_def: GraphDef, stack: NodeDef) -> None:
    """Lets the readers of a stack read it from its end."""
    import tensorflow as tf

    name, stack.name = stack.name, f"{stack.name}_as_written"
    axis = graph_def.node.add(name=f"{name}_axis", op="Const")
    axis.attr["dtype"].type = tf.int32.as_datatype_enum
    axis.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([0], tf.int32))
    turned = graph_def.node.add(name=name, op="ReverseV2")
    turned.input.extend([stack.name, axis.name])
    turned.attr["Tidx"].type = tf.int32.as_datatype_enum
    turned.attr["T"].type = stack.attr["element_dtype"].type


def _loops(graph_def: GraphDef) -> list[NodeDef]:
    return [node for node in graph_def.node if node.op in ("While", "StatelessWhile")]


def _drop_unread_stacks(graph_def: GraphDef) -> None:
    """Removes stacks without readers: `keras.ops.scan` stacks outputs that do not exist."""
    read = {_node(name) for node in graph_def.node for name in node.input}
    for node in [node for node in graph_def.node if node.op == _STACK]:
        if node.name not in read:
            graph_def.node.remove(node)


def _retype(loop: NodeDef, parts: list[FunctionDef], index: int, dtype: int) -> None:
    """Makes a tensor of the variable of a loop that was a list."""
    loop.attr["T"].list.type[index] = dtype
    loop.attr.pop("output_shapes", None)  # a list has the shape of a scalar
    for function in parts:
        function.signature.input_arg[index].type = dtype
        function.arg_attr.pop(index, None)
        _unwrap_argument(function, function.signature.input_arg[index].name, dtype)
    parts[1].signature.output_arg[index].type = dtype


def _passes_through(body: FunctionDef, index: int) -> bool:
    returned = body.ret[body.signature.output_arg[index].name]
    return returned == body.signature.input_arg[index].name


def _writes_single_list(writer: NodeDef, nodes: dict[str, NodeDef]) -> bool:
    import tensorflow as tf

    if writer.op != _WRITE:
        return False
    made = nodes[_node(writer.input[0])]
    if made.op != _MAKE:
        return False
    size = nodes[_node(made.input[1])]
    return size.op == "Const" and int(tf.make_ndarray(size.attr["value"].tensor)) == 1


def _unwrap_argument(function: FunctionDef, argument: str, dtype: int) -> None:
    """Lets reads of a list be the argument, and writes to it the value that is written."""
    import tensorflow as tf

    variant = tf.variant.as_datatype_enum
    lists, renamed = {argument}, {}
    while True:
        readers = [node for node in function.node_def if node.input and node.input[0] in lists]
        passed = [n for n in readers if n.op == "Identity" and n.attr["T"].type == variant]
        used = [node for node in readers if node.op in (_READ, _WRITE)]
        if not passed and not used:
            break
        for node in passed:
            node.attr["T"].type = dtype
            lists.add(f"{node.name}:output:0")
        for node in used:
            if node.op == _WRITE:
                lists.add(f"{node.name}:output_handle:0")
            renamed[f"{node.name}:{'output_handle' if node.op == _WRITE else 'item'}:0"] = (
                f"{node.name}:output:0"
            )
            _become_identity(node, operand=2 if node.op == _WRITE else 0)
    for node in function.node_def:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    for name, value in list(function.ret.items()):
        function.ret[name] = renamed.get(value, value)


def _become_identity(node: NodeDef, operand: int) -> None:
    value, dtype = node.input[operand], node.attr["element_dtype"].type
    node.op = "Identity"
    node.input[:] = [value]
    node.attr.clear()
    node.attr["T"].type = dtype


def _become_zero(node: NodeDef) -> None:
    import tensorflow as tf

    dtype = tf.as_dtype(node.attr["element_dtype"].type)
    node.op = "Const"
    del node.input[:]
    node.attr.clear()
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(0, dtype, ()))


def _node(name: str) -> str:
    return name.partition(":")[0]
