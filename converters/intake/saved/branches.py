"""Branches of a frozen graph: what they return, and choices among many as choices between two.

ONNX and TFLite have an If, and no choice among many.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tfmp.converters.intake.saved.loops import become_constant
from tfmp.converters.shared.frameworks import FunctionLibrary, GraphDef, NodeDef, NodeDefs

_KINDS = {"Case": "If", "StatelessCase": "StatelessIf"}
_INT32 = 3  # tensorflow.DataType

# The argument that tells a branch which one is wanted; only those that choose again read it.
_INDEX = "tfmp_branch_index"


@contextmanager
def choices_kept() -> Iterator[None]:
    """While it lasts, TensorFlow keeps a Case whole, as it does an If where it is asked to."""
    from tensorflow.python.framework import convert_to_constants

    kept = convert_to_constants._CONTROL_FLOW_OPS
    convert_to_constants._CONTROL_FLOW_OPS = {*kept, *_KINDS}
    try:
        yield
    finally:
        convert_to_constants._CONTROL_FLOW_OPS = kept


def two_by_two(graph_def: GraphDef) -> None:
    """Changes a TensorFlow graph: an If chooses between a Case's first branch and the rest.

    The rest is a function in which an If chooses between the second branch and the remaining ones.
    As in a Case, an index beyond the branches means the last branch.
    """
    while (found := next(_cases(graph_def), None)) is not None:
        nodes, case = found
        _split(graph_def.library, nodes, case, inside=nodes is not graph_def.node)


def mend_returns(graph_def: GraphDef) -> None:
    """Lets functions return the constants that took the place of variables.

    TensorFlow renames what nodes read, and forgets a function that returns the variable itself, as
    the branch of a batch normalization does that chooses its statistics by a placeholder.
    """
    for function in graph_def.library.function:
        kinds = {node.name: node.op for node in function.node_def}
        for name, place in function.ret.items():
            source, _, output = place.partition(":")
            if output == "value:0" and kinds.get(source) == "Identity":
                function.ret[name] = f"{source}:output:0"


def _cases(graph_def: GraphDef) -> Iterator[tuple[NodeDefs, NodeDef]]:
    """Each Case with the nodes among which it stands."""
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        yield from ((nodes, node) for node in nodes if node.op in _KINDS)


def _split(library: FunctionLibrary, nodes: NodeDefs, case: NodeDef, inside: bool) -> None:
    names = [branch.name for branch in case.attr["branches"].list.func]
    branches = [_taking_index(library, name) for name in names]
    other = branches[-1]
    for position in range(len(branches) - 2, 0, -1):
        other = _choice(library, case, position, (branches[position], other))
    index, operands = case.input[0], list(case.input[1:])
    _add_if(nodes, case, case.name, 0, (branches[0], other), index, operands, inside)
    nodes.remove(case)


def _taking_index(library: FunctionLibrary, name: str) -> str:
    """Adds a copy of a branch that takes the index behind its operands; gives its name."""
    original = next(item for item in library.function if item.signature.name == name)
    copy = library.function.add()
    copy.CopyFrom(original)
    copy.signature.name = f"{name}_tfmp_{len(library.function)}"
    copy.signature.input_arg.add(name=_INDEX, type=_INT32)
    return copy.signature.name


def _choice(
    library: FunctionLibrary, case: NodeDef, position: int, branches: tuple[str, str]
) -> str:
    """Adds a function that calls one of two branches; gives its name."""
    function = library.function.add()
    signature = function.signature
    # TensorFlow knows functions of all models by their names, and a branch's own is like no other.
    signature.name = f"{branches[0]}_or_later"
    operands = [f"operand_{i}" for i in range(len(case.attr["Tin"].list.type))]
    for name, dtype in zip(operands, case.attr["Tin"].list.type, strict=True):
        signature.input_arg.add(name=name, type=dtype)
    signature.input_arg.add(name=_INDEX, type=_INT32)
    _add_if(function.node_def, case, "chosen", position, branches, _INDEX, operands, inside=True)
    for i, dtype in enumerate(case.attr["Tout"].list.type):
        signature.output_arg.add(name=f"result_{i}", type=dtype)
        function.ret[f"result_{i}"] = f"chosen:output:{i}"
    return signature.name


def _add_if(
    nodes: NodeDefs,
    case: NodeDef,
    name: str,
    position: int,
    branches: tuple[str, str],
    index: str,
    operands: Sequence[str],
    inside: bool,
) -> None:
    """Adds an If that calls the first function where the index is `position`, else the second."""
    import tensorflow as tf

    number = nodes.add(name=f"{name}_position")
    become_constant(number, position)
    here = nodes.add(name=f"{name}_here", op="Equal")
    here.input.extend([index, f"{number.name}:output:0" if inside else number.name])
    here.attr["T"].type = _INT32
    made = nodes.add(name=name, op=_KINDS[case.op])
    made.input.extend([f"{here.name}:z:0" if inside else here.name, *operands, index])
    made.attr["Tcond"].type = tf.bool.as_datatype_enum
    made.attr["Tin"].list.type.extend([*case.attr["Tin"].list.type, _INT32])
    made.attr["Tout"].CopyFrom(case.attr["Tout"])
    made.attr["output_shapes"].CopyFrom(case.attr["output_shapes"])
    for attribute, function in zip(("then_branch", "else_branch"), branches, strict=True):
        made.attr[attribute].func.name = function
