"""Models of one operator: what does not run them runs no model.

If a runtime refuses a candidate and a probe alike, the machine is to blame and not the file.
"""


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

    def tensor(name: str) -> schema.TensorT:
        made = schema.TensorT()
        made.name, made.shape, made.type = name, [1, 4], schema.TensorType.FLOAT32
        return made

    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.LOGISTIC
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = [0], [1]
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs = [tensor("x"), tensor("y")], [0], [1]
    graph.operators = [operator]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]  # by convention the first one is empty
    builder = schema.flatbuffers.Builder(512)  # the one that LiteRT itself is built with
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
