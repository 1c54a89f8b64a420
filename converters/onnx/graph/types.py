"""Type and shape inference, and ONNX's full check, without carrying the weights along."""

from collections.abc import Mapping
from typing import TypeVar

import onnx
import onnx_ir as ir

from tfmp.converters.onnx.graph.traversal import bodies_of, graphs_of
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.onnx_files import PLAIN
from tfmp.shared.wording import first_line

# Inference reads small constants (shapes, axes, sizes); larger ones are weights.
_LARGE_BYTES = 1024


def detach_weights(model: ir.Model) -> tuple[onnx.ModelProto, dict[str, ir.TensorProtocol]]:
    """The model as protobuf without its large initializers, and these by name.

    Large ones that nothing reads are in neither.
    """
    graph = model.graph
    large = {
        name: value
        for name, value in graph.initializers.items()
        if value.const_value is not None
        and value.const_value.nbytes > _LARGE_BYTES
        and value.const_value.dtype.numpy().name in PLAIN
        and not value.is_graph_input()
    }
    _load_others(model, large)
    order = list(graph.initializers.values())
    for name in large:
        del graph.initializers[name]
    try:
        proto = ir.to_proto(model)
    finally:
        graph.initializers.clear()
        for value in order:
            graph.initializers.add(value)
    weights = {
        name: value.const_value
        for name, value in large.items()
        if value.const_value is not None and (value.uses() or value.is_graph_output())
    }
    return proto, weights


def _load_others(model: ir.Model, large: Mapping[str, ir.Value]) -> None:
    """Takes into memory what stays in the protobuf: the files that it lies in are the original's.

    These may be the model's own file, another folder's, or gone when the result is opened.
    """
    for graph in graphs_of(model):
        for name, value in graph.initializers.items():
            if graph is not model.graph or name not in large:
                value.const_value = _in_memory(value.const_value)
        for node in graph:
            for name, attribute in list(node.attributes.data.items()):
                if isinstance(attribute.value, ir.ExternalTensor):
                    node.attributes[name] = ir.AttrTensor(name, _in_memory(attribute.value))


Tensor = TypeVar("Tensor")


def _in_memory(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    (loaded,) = ir.external_data.convert_tensors_from_external([tensor])
    return loaded


def light_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as protobuf with large initializers as graph inputs: the same types in few bytes.

    Protobuf cannot hold more than 2 GiB, and ONNX's C++ functions copy their arguments.
    """
    proto, weights = detach_weights(model)
    weights_as_inputs(proto, weights)
    return proto


def weights_as_inputs(proto: onnx.ModelProto, weights: Mapping[str, ir.TensorProtocol]) -> None:
    """Declares the weights that `detach_weights` left out as inputs of the graph."""
    for name, tensor in weights.items():
        sizes = tensor.shape.numpy()
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(name, tensor.dtype.value, sizes)
        )


def infer_types(model: ir.Model) -> None:
    """Gives every value the type and shape that follow from the inputs.

    Raises:
        ConversionError: the types contradict each other.
    """
    proto = light_proto(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(
            proto, check_type=True, strict_mode=False, data_prop=True
        )
    except Exception as error:  # ONNX's C++ exceptions share no base class
        raise ConversionError(
            f"the graph's types cannot be inferred ({first_line(error)}). Check it with "
            "`onnx.checker.check_model(model, full_check=True)`."
        ) from error
    _take_types(model.graph, proto.graph, inferred.graph)


def _take_types(graph: ir.Graph, before: onnx.GraphProto, after: onnx.GraphProto) -> None:
    """Gives the values of a graph, and of the bodies in it, the types that inference added."""
    known = _described(before)
    news = {name: info for name, info in _described(after).items() if known.get(name) != info}
    for value in graph.inputs if news else ():
        _take_type(value, news)
    for node, old, new in zip(graph, before.node, after.node, strict=True):
        for value in node.outputs if news else ():
            _take_type(value, news)
        for name, body in bodies_of(node):
            _take_types(body, _body(old, name), _body(new, name))


def _take_type(value: ir.Value, news: Mapping[str, onnx.ValueInfoProto]) -> None:
    info = news.get(value.name or "")
    found = ir.serde.deserialize_type_proto_for_type(info.type) if info is not None else None
    if info is None or found is None:
        return
    value.type = found
    shape = ir.serde.deserialize_type_proto_for_shape(info.type)
    if shape is not None:
        value.shape = shape


def _described(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    return {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}


def _body(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(attribute.g for attribute in node.attribute if attribute.name == name)


def strip_inferred(proto: onnx.ModelProto) -> None:
    """Takes out the types of inner values that every reader of the file infers anyway.

    Args:
        proto: a valid model, as `light_proto` gives it.
    """
    told = onnx.GraphProto(value_info=proto.graph.value_info)
    proto.graph.ClearField("value_info")
    inferred = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    found = {info.name: info.type for info in inferred.graph.value_info}
    # Constants say their types themselves.
    typed = {one.name for one in (*proto.graph.input, *proto.graph.initializer)}
    proto.graph.value_info.extend(
        info
        for info in told.value_info
        if info.name not in typed and found.get(info.name) != info.type
    )


def check(model: ir.Model) -> None:
    """Raises `ConversionError` unless the model passes ONNX's full check with strict types."""
    check_light(light_proto(model))


def check_light(proto: onnx.ModelProto) -> None:
    """Like `check`, for a result of `light_proto`."""
    try:
        onnx.checker.check_model(proto, full_check=True)  # infers all types, strictly
    except Exception as error:
        raise ConversionError(
            f"the converted model is not valid ONNX ({first_line(error)}). This is a "
            "defect of tfmp: report it with the model; `--keep-fp32` on the op named here avoids "
            "it."
        ) from error
