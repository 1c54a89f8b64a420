"""A model's forward pass in float64. The distance of the float32 pass from it is float32's error.

Every float in the traced graph becomes float64: constants, attributes, weights and the signatures
of inner functions. This needs no Keras model: it works for SavedModels and functions too, and gives
the results of Keras's `float64` policy with the same weights.
"""

import numpy as np

from tfmp.converters.intake.saved import rename_functions, widen, widen_functions
from tfmp.converters.intake.source import AnySource, OnnxSource
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.traced_runs import run_traced
from tfmp.shared.backend import Tensor
from tfmp.shared.wording import first_line

_NARROW = {1: "float32", 14: "bfloat16", 19: "float16"}  # tensorflow.DataType


class Float64Model:
    """The forward pass of a source in float64."""

    def __init__(self, source: AnySource) -> None:
        """Widens the graph.

        Raises:
            ConversionError: something of the model cannot be computed in float64.
        """
        import tensorflow as tf

        if isinstance(source, OnnxSource):
            raise ConversionError("ONNX Runtime has no float64 for most operators")
        self._source = source
        traced = source.marked
        graph_def = traced.graph.as_graph_def()
        rename_functions(graph_def, "_float64")
        widen(graph_def.node, _NARROW, np.float64)
        widen_functions(graph_def, _NARROW, np.float64)
        wide = {
            id(variable.handle): tf.Variable(_wide(variable.numpy()), trainable=False)
            for variable in traced.graph.variables
        }
        self._variables = list(wide.values())
        self._captured = [
            wide[id(outer)].handle if id(outer) in wide else _wide_tensor(outer)
            for outer, _ in traced.graph.captures
        ]
        inside = [inner.name for _, inner in traced.graph.captures]
        feeds = [tensor.name for tensor in traced.inputs if tensor.name not in inside] + inside
        fetches = [tensor.name for tensor in traced.outputs]
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
            outputs = run_traced(self._graph, *tensors, *self._captured)
        except tf.errors.OpError as error:
            raise ConversionError(
                f"TensorFlow cannot run a part of the model in float64 ({first_line(error)})"
            ) from error
        names = (spec.name for spec in self._source.outputs)
        return {name: np.asarray(value) for name, value in zip(names, outputs, strict=True)}


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.name in _NARROW.values() else array


def _wide_tensor(tensor: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.cast(tensor, tf.float64) if tensor.dtype.name in _NARROW.values() else tensor
