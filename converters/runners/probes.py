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


# More ones than FP16 can count: from 2048 on, adding one changes nothing.
SUM_TERMS = 4096


def tflite_probe() -> bytes:
    """A product of "x" [1, 4096] with ones, which is 4096 where sums are held in FP32."""
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str, shape: list[int], buffer: int = 0) -> schema.TensorT:
        made = schema.TensorT()
        made.name, made.shape, made.type = name, shape, schema.TensorType.FLOAT32
        made.buffer = buffer
        return made

    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = [0, 2, -1], [1]  # no bias
    operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    operator.builtinOptions = schema.FullyConnectedOptionsT()
    graph = schema.SubGraphT()
    graph.tensors = [tensor("x", [1, SUM_TERMS]), tensor("y", [1, 8])]
    graph.tensors.append(tensor("weights", [8, SUM_TERMS], 1))
    graph.inputs, graph.outputs, graph.operators = [0], [1], [operator]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT(), schema.BufferT()]  # by convention the first one is empty
    model.buffers[1].data = np.ones(8 * SUM_TERMS, np.float32).view(np.uint8)
    builder = schema.flatbuffers.Builder(512)  # the one that LiteRT itself is built with
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
