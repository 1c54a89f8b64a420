"""Outputs that LiteRT can hand out: each a tensor of its own, which an operator writes."""

from copy import copy

import numpy as np
from ai_edge_litert import schema_py_generated as schema

_OPERATORS = schema.BuiltinOperator
# Their results are allocated as they come.
_NOT_HANDED_OUT = frozenset(
    getattr(_OPERATORS, name)
    for name in "WHILE IF UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD "
    "UNSORTED_SEGMENT_SUM".split()
)


def tell_apart(model: schema.ModelT) -> None:
    """Copies tensors that are several outputs, inputs and outputs, or results of a loop.

    TensorFlow's converter merges what is computed alike. LiteRT's CompiledModel then finds only one
    of the outputs, and reads garbage from an input that is an output, too.

    Args:
        model: a file as objects; it is changed.
    """
    for signature in model.signatureDefs:
        graph = model.subgraphs[signature.subgraphIndex]
        operators = graph.operators or []
        makers = {
            index: operator.opcodeIndex for operator in operators for index in operator.outputs
        }
        taken = {entry.tensorIndex for entry in signature.inputs}
        for entry in signature.outputs:
            maker = makers.get(entry.tensorIndex)
            kind = None if maker is None else model.operatorCodes[maker].builtinCode
            if entry.tensorIndex in taken or kind in _NOT_HANDED_OUT:
                entry.tensorIndex = _copied(model, graph, entry.tensorIndex)
            taken.add(entry.tensorIndex)
        graph.outputs = np.array([entry.tensorIndex for entry in signature.outputs], np.int32)


def _copied(model: schema.ModelT, graph: schema.SubGraphT, index: int) -> int:
    """The index of a new tensor with the values of another."""
    tensor = copy(graph.tensors[index])
    tensor.name, tensor.buffer = tensor.name + b"_copy", 0
    graph.tensors.append(tensor)
    boolean = tensor.type == schema.TensorType.BOOL
    operator = schema.OperatorT()
    operator.inputs = np.array([index, index], np.int32)
    operator.outputs = np.array([len(graph.tensors) - 1], np.int32)
    operator.opcodeIndex = add_code(model, _OPERATORS.LOGICAL_OR if boolean else _OPERATORS.MAXIMUM)
    kind = "LogicalOrOptions" if boolean else "MaximumMinimumOptions"
    operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
    operator.builtinOptions = getattr(schema, f"{kind}T")()
    graph.operators = [*(graph.operators or ()), operator]
    return len(graph.tensors) - 1


def add_code(model: schema.ModelT, operator: int, version: int = 1) -> int:
    """The index of a new operator code."""
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = operator
    code.version = version
    model.operatorCodes = [*(model.operatorCodes or ()), code]
    return len(model.operatorCodes) - 1
