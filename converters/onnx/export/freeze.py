"""Freezes a TensorFlow graph for inference, with its large weights beside it instead of in it.

TensorFlow's own freezing writes every weight into a protobuf, which copies it and ends at 2 GiB.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from tfmp.converters.intake import Source, cut_behind, reached
from tfmp.converters.onnx.export.layers import layer_of
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import GraphDef, Variable
from tfmp.converters.shared.tensors import describe, unique_name
from tfmp.shared.backend import Tensor

# tf2onnx copies small constants freely and some of its rewriters look inside them (biases, shapes,
# normalization vectors); what is larger than this travels beside the graph.
_BESIDE_BYTES = 64 * 1024

# The op of what travels beside. It takes no inputs, and grappler does not fold it; of each
# placeholder grappler makes an array of zeros.
UNFED = "ImmutableConst"


@dataclass(frozen=True)
class FrozenGraph:
    """A TensorFlow graph without its large weights, which enter it as inputs.

    Attributes:
        graph_def: the frozen graph.
        inputs: our names by TensorFlow's tensor names, of the inputs and then of the weights.
        outputs: TensorFlow's tensor names of the outputs.
        weights: the arrays by our names, as TensorFlow holds them.
        layers: Keras layer names by the name scopes of their ops.
    """

    graph_def: GraphDef
    inputs: dict[str, str]
    outputs: list[str]
    weights: dict[str, np.ndarray]
    layers: dict[str, str]


class _Weight:
    """Stands for a large weight while TensorFlow freezes the graph: dtype and shape, no values.

    TensorFlow writes a constant of this shape and one value, which protobuf holds in a few bytes.
    """

    def __init__(self, variable: Variable) -> None:
        self.variable = variable
        self.dtype = np.dtype(variable.dtype.as_numpy_dtype)
        self.shape = tuple(variable.shape)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.zeros(1, dtype or self.dtype)

    def values(self) -> np.ndarray:
        """The values in TensorFlow's own memory; `numpy()` would copy them."""
        return np.asarray(memoryview(self.variable.read_value()))


def freeze(source: Source) -> FrozenGraph:
    """Turns the variables of a traced source into constants, and large ones into inputs.

    Raises:
        ConversionError: the graph has inputs that the model does not declare.
    """
    from tensorflow.python.framework import convert_to_constants

    class Data(convert_to_constants._FunctionConverterDataInEager):
        """TensorFlow's table of values to turn into constants, without the large ones."""

        def _eval(self, tensor: Variable) -> _Weight | Tensor:
            weight = hasattr(tensor, "read_value")
            if weight and tensor.dtype.size * tensor.shape.num_elements() > _BESIDE_BYTES:
                return _Weight(tensor)
            return super()._eval(tensor)

    traced = source.marked
    data = Data(traced, lower_control_flow=False, aggressive_inlining=True)
    graph_def, converted = convert_to_constants._replace_variables_by_constants(data)
    captures = {inside.op.name: outside for outside, inside in traced.graph.captures}
    constant = {traced.graph.internal_captures[index].name for index in converted}
    open_inputs = [tensor.name for tensor in traced.inputs if tensor.name not in constant]
    outside = [name for name in captures if f"{name}:0" in open_inputs]
    lookups = [node.name for node in graph_def.node if node.op == "LookupTableFindV2"]
    if lookups or len(open_inputs) != len(source.inputs):
        _refuse_captures(source, lookups or outside)
    inputs = dict(zip(open_inputs, (spec.name for spec in source.inputs), strict=True))
    taken = {spec.name for spec in (*source.inputs, *source.outputs)}
    paths = _keras_paths(source)
    held = {
        name: data.numpy for name, data in data.tensor_data.items() if type(data.numpy) is _Weight
    }
    weights: dict[str, np.ndarray] = {}
    for name, array in _lift_constants(graph_def, held):
        path = name
        if name in held:
            variable = held[name].variable
            path = paths.get(id(variable), variable.name.partition(":")[0])
        ours = unique_name(path, taken | weights.keys())
        weights[ours], inputs[f"{name}:0"] = array, ours
    outputs = [tensor.name for tensor in traced.outputs]
    return FrozenGraph(graph_def, inputs, outputs, weights, dict(source.layers))


def _refuse_captures(source: Source, nodes: Sequence[str]) -> None:
    """Raises `ConversionError` about nodes that read tables, or are tensors from outside."""
    where = dict.fromkeys(layer_of(name, source.layers) or name for name in nodes)
    raise ConversionError(
        f"model {source.name!r}: {', '.join(where) or 'a layer'} reads a table or tensor that is "
        f"kept outside the model and cannot be a constant (inputs: {describe(source.inputs)})",
        "Do that step before the model, and pass its results as data"
        f"{cut_behind(source, next(iter(where), ''))}",
    )


def _keras_paths(source: Source) -> dict[int, str]:
    """Keras's names of variables, by identity of TensorFlow's."""
    import keras

    return {id(v.value): v.path for v in source.variables if isinstance(v, keras.Variable)}


def _lift_constants(
    graph_def: GraphDef, held: dict[str, _Weight]
) -> Iterator[tuple[str, np.ndarray]]:
    """Takes the values out of large constants, and gives their names and values."""
    import tensorflow as tf

    looped = _read_by_loops(graph_def)
    for node in graph_def.node:
        if node.op != "Const":
            continue
        tensor = node.attr["value"].tensor
        if node.name in looped:
            # tf2onnx makes an LSTM of a loop, for which it reads the kernels' values.
            if node.name in held:
                tensor.CopyFrom(tf.make_tensor_proto(held[node.name].values()))
            continue
        if node.name in held:
            array = held[node.name].values()
        elif tensor.ByteSize() > _BESIDE_BYTES:
            array = tf.make_ndarray(tensor)
        else:
            continue
        node.op = UNFED
        node.attr["memory_region_name"].s = b"none"
        del node.attr["value"]
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
        yield node.name, array


def _read_by_loops(graph_def: GraphDef) -> set[str]:
    """Names of the nodes whose values enter a loop as they are."""
    producers = {node.name: node for node in graph_def.node}
    loops = [node for node in graph_def.node if node.op in ("While", "StatelessWhile")]

    def after(name: str) -> list[str]:
        made = producers[name]
        return [_plain(one) for one in made.input] if made.op == "Identity" else []

    return reached((_plain(name) for node in loops for name in node.input), after)


def _plain(name: str) -> str:
    return name.partition(":")[0].removeprefix("^")
