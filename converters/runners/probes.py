"""Models of one operator: what does not run them runs no model.

If a runtime refuses a candidate and a probe alike, the machine is to blame and not the file.
"""

import numpy as np


def onnx_probe() -> bytes:
    """A convolution of "x" [1, 1, 1, 1]: on a GPU it loads cuDNN, which others may not need."""
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 1, 1]) for name in "xy")
    kernel = helper.make_tensor("kernel", TensorProto.FLOAT, [1, 1, 1, 1], [2.0])
    convolution = helper.make_node("Conv", ["x", "kernel"], ["y"])
    graph = helper.make_graph([convolution], "probe", [x], [y], [kernel])
    opset = helper.make_opsetid("", 13)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())


def tflite_probe() -> bytes:
    """A sigmoid of "x" [1, 4], which every LiteRT has."""
    from ai_edge_litert import schema_py_generated as schema

    return _one_operator(schema.BuiltinOperator.LOGISTIC, [1, 4], [1, 4])


# More ones than FP16 can count: from 2048 on, adding one changes nothing.
SUM_TERMS = 4096


def tflite_sum_probe() -> bytes:
    """A product of "x" [1, 4096] with ones, which is 4096 where sums are held in FP32."""
    from ai_edge_litert import schema_py_generated as schema

    ones = np.ones((8, SUM_TERMS), np.float32)
    return _one_operator(schema.BuiltinOperator.FULLY_CONNECTED, [1, SUM_TERMS], [1, 8], ones)


def _one_operator(
    kind: int, taken: list[int], given: list[int], weights: np.ndarray | None = None
) -> bytes:
    """A .tflite file of one operator from "x" to "y".

    Args:
        kind: the operator, of `schema.BuiltinOperator`.
        taken: shape of "x".
        given: shape of "y".
        weights: a constant that is the operator's second operand.
    """
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str, shape: list[int], buffer: int = 0) -> schema.TensorT:
        made = schema.TensorT()
        made.name, made.shape, made.type = name, shape, schema.TensorType.FLOAT32
        made.buffer = buffer
        return made

    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = kind
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = [0], [1]
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs = [tensor("x", taken), tensor("y", given)], [0], [1]
    graph.operators = [operator]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]  # by convention the first one is empty
    if weights is not None:
        operator.inputs = [0, 2, -1]  # no bias
        operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
        operator.builtinOptions = schema.FullyConnectedOptionsT()
        graph.tensors.append(tensor("weights", list(weights.shape), 1))
        model.buffers.append(schema.BufferT())
        model.buffers[1].data = np.frombuffer(weights.tobytes(), np.uint8)
    builder = schema.flatbuffers.Builder(512)  # the one that LiteRT itself is built with
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
