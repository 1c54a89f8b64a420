"""A model's forward pass in float64. The distance of the float32 pass from it is float32's error.

Every float in the traced graph becomes float64: constants, attributes, weights and the signatures
of inner functions. This needs no Keras model: it works for SavedModels and functions too, and gives
the results of Keras's `float64` policy with the same weights.
"""

from functools import partial

import numpy as np

from tfmp.converters.intake.saved import Edits, Fillings, Graph, Retracing, captured
from tfmp.converters.intake.source import AnySource, OnnxSource
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.traced_runs import run_traced
from tfmp.shared.backend import Tensor
from tfmp.shared.wording import first_line

_NARROW = (1, 14, 19)  # tensorflow.DataType: float32, bfloat16, float16


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
        graph = Graph(source.marked, len(source.inputs))

        edits = Edits(_NARROW, np.float64)
        edits.fill(_norms)

        def wide(*tensors: Tensor) -> list[Tensor]:
            retracing = Retracing(graph.bodies, edits)
            given = {**dict(zip(graph.inputs, tensors, strict=True)), **captured(source.marked)}
            return retracing.main(graph, given)

        specs = [tf.TensorSpec(spec.shape, spec.dtype) for spec in source.inputs]
        try:
            self._graph = tf.compat.v1.wrap_function(wide, specs)
        except Exception as error:  # ValueError or one of TensorFlow's, by op
            raise ConversionError(
                f"TensorFlow has no float64 for a part of the model ({first_line(error)[:300]})"
            ) from error

    def run(self, batch: Batch) -> Batch:
        """Arrays by input name to arrays by output name, floats in float64."""
        import tensorflow as tf

        tensors = [tf.constant(batch[spec.name], spec.dtype) for spec in self._source.inputs]
        try:
            outputs = run_traced(self._graph, *tensors)
        except tf.errors.OpError as error:
            raise ConversionError(
                f"TensorFlow cannot run a part of the model in float64 ({first_line(error)})"
            ) from error
        names = (spec.name for spec in self._source.outputs)
        return {name: np.asarray(value) for name, value in zip(names, outputs, strict=True)}


def _norms(graph: Graph) -> Fillings:
    """Batch normalizations, as TensorFlow has none of them fused in float64."""
    fused = (node for node in graph.nodes if node.op.startswith("FusedBatchNorm"))
    return [(node, partial(_normalized, node.attributes["epsilon"].f)) for node in fused]


def _normalized(
    epsilon: float, x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    return (x - mean) * (scale / (variance + epsilon) ** 0.5) + offset
