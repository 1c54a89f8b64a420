"""A model's forward pass in float64. The distance of the float32 pass from it is float32's error.

The traced graph is frozen and every float in it becomes float64: constants, attributes and the
signatures of inner functions. This needs no Keras model: it works for SavedModels and functions
too, and gives the results of Keras's `float64` policy with the same weights.
"""

import numpy as np

from tfmp.converters.intake.saved import rename_functions, widen, widen_functions
from tfmp.converters.intake.source import AnySource, OnnxSource, Source
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import NodeDefs
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.traced_runs import run_traced
from tfmp.shared.backend import Tensor
from tfmp.shared.wording import first_line

_NARROW = {1: "float32", 14: "bfloat16", 19: "float16"}  # tensorflow.DataType

# Larger weights enter the graph as inputs. TensorFlow copies a graph some ten times before it runs:
# a model with 120 million weights took 19 GiB with its weights inside.
_BESIDE_BYTES = 64 * 1024


def in_float64(source: AnySource) -> "Float64Model":
    """The forward pass of a source in float64.

    Raises:
        ConversionError: something of the model cannot be computed in float64.
    """
    if isinstance(source, OnnxSource):
        raise ConversionError("ONNX Runtime has no float64 for most operators")
    return Float64Model(source)


class Float64Model:
    """The forward pass of a source in float64."""

    def __init__(self, source: Source) -> None:
        """Widens the graph.

        Raises:
            ConversionError: the model has an op that TensorFlow cannot compute in float64.
        """
        import tensorflow as tf
        from tensorflow.python.framework.convert_to_constants import (
            convert_variables_to_constants_v2,
        )

        self._source = source
        frozen = convert_variables_to_constants_v2(
            source.marked, lower_control_flow=False, aggressive_inlining=True
        )
        if len(frozen.inputs) != len(source.inputs):
            raise ConversionError(
                "a layer reads a table, which cannot be a constant of a float64 graph"
            )
        graph_def = frozen.graph.as_graph_def()
        self._weights = _taken_out(graph_def.node)
        rename_functions(graph_def, "_float64")
        widen(graph_def.node, _NARROW, np.float64)
        widen_functions(graph_def, _NARROW, np.float64)
        feeds = [*(tensor.name for tensor in frozen.inputs), *self._weights]
        fetches = [tensor.name for tensor in frozen.outputs]
        try:
            imported = tf.compat.v1.wrap_function(
                lambda: tf.graph_util.import_graph_def(graph_def, name=""), []
            )
            tensor = imported.graph.as_graph_element
            self._graph = imported.prune(
                [tensor(name) for name in feeds], [tensor(name) for name in fetches]
            )
        except Exception as error:  # ValueError or one of TensorFlow's, by op
            raise ConversionError(
                f"TensorFlow has no float64 for a part of the model ({first_line(error)[:300]})"
            ) from error

    def run(self, batch: Batch) -> Batch:
        """Arrays by input name to arrays by output name, floats in float64."""
        import tensorflow as tf

        tensors = [tf.constant(_wide(batch[spec.name])) for spec in self._source.inputs]
        try:
            outputs = run_traced(self._graph, *tensors, *self._weights.values())
        except tf.errors.OpError as error:
            raise ConversionError(
                f"TensorFlow cannot run a part of the model in float64 ({first_line(error)})"
            ) from error
        names = (spec.name for spec in self._source.outputs)
        return {name: np.asarray(value) for name, value in zip(names, outputs, strict=True)}


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.name in _NARROW.values() else array


def _taken_out(nodes: NodeDefs) -> dict[str, Tensor]:
    """Makes inputs of large float32 constants; their values in float64, by the input's name."""
    import tensorflow as tf

    weights = {}
    for node in nodes:
        if node.op != "Const":
            continue
        value = node.attr["value"].tensor
        if value.dtype in _NARROW and value.ByteSize() > _BESIDE_BYTES:
            array = tf.make_ndarray(value)
            node.op = "Placeholder"
            del node.attr["value"]
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
            weights[f"{node.name}:0"] = tf.constant(array.astype(np.float64))
    return weights
