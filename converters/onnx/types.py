"""Type and shape inference, and ONNX's full check, without carrying the weights along."""

import onnx
import onnx_ir as ir

from tfmp.converters.errors import ConversionError

# Inference reads small constants (shapes, axes, sizes); larger ones are weights.
_LARGE_BYTES = 1024


def light_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as protobuf with large initializers as graph inputs: same types, few bytes.

    Protobuf cannot hold more than 2 GiB, and ONNX's C++ functions copy what they are given.
    """
    graph = model.graph
    own_inputs = list(graph.inputs)
    large = [
        value
        for value in graph.initializers.values()
        if value.const_value is not None and value.const_value.nbytes > _LARGE_BYTES
    ]
    tensors = [value.const_value for value in large]
    try:
        for value in large:
            assert value.name is not None
            del graph.initializers[value.name]
            value.const_value = None
            if value not in graph.inputs:
                graph.inputs.append(value)
        return ir.to_proto(model)
    finally:
        graph.inputs.clear()
        graph.inputs.extend(own_inputs)
        for value, tensor in zip(large, tensors, strict=True):
            value.const_value = tensor
            graph.initializers.add(value)


def infer_types(model: ir.Model) -> None:
    """Gives every value the type and shape that follow from the inputs'.

    Raises:
        ConversionError: the types contradict each other.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(
            light_proto(model), check_type=True, strict_mode=False, data_prop=True
        )
    except Exception as error:  # ONNX's C++ exceptions share no base class
        raise ConversionError(
            f"the graph's types cannot be inferred ({str(error).splitlines()[0]}). Check it with "
            "`onnx.checker.check_model(model, full_check=True)`."
        ) from error
    for graph, typed in zip(model.graphs(), ir.from_proto(inferred).graphs(), strict=True):
        known = ir.convenience.create_value_mapping(typed)
        for name, value in ir.convenience.create_value_mapping(graph).items():
            if name in known and known[name].type is not None:
                value.type = known[name].type
                value.shape = known[name].shape or value.shape


def check(model: ir.Model) -> None:
    """Raises `ConversionError` unless the model passes ONNX's full check with strict types."""
    proto = light_proto(model)
    try:
        onnx.checker.check_model(proto, full_check=True)
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    except Exception as error:
        raise ConversionError(
            f"the converted model is not valid ONNX ({str(error).splitlines()[0]}). This is a "
            "defect of tfmp: report it with the model; `--keep-fp32` on the op named here avoids "
            "it."
        ) from error
