"""Writes sources as a SavedModel that TensorFlow's converter turns into a right .tflite file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tfmp.converters.intake import Source
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import TracedFunction
from tfmp.converters.tflite.file import layer_of, safe_names
from tfmp.shared.backend import Tensor


def write_saved_model(
    signatures: Mapping[str, Source], batch_size: int | None, folder: Path
) -> None:
    """Writes the forward passes with safe names; weights that they share are written once.

    Args:
        signatures: sources by the names of their signatures.
        batch_size: samples of the inputs that leave the number open; None keeps it open.
        folder: the folder to write to.

    Raises:
        ConversionError: there is no room for the weights, or one of them is a lookup table.
    """
    import tensorflow as tf

    module = tf.Module()
    functions, variables = {}, {}
    for key, source in signatures.items():
        pinned = not any(map(source.layout.any_samples, source.inputs))
        graph = source.graph if pinned or batch_size is None else source.trace(batch_size)
        # The variables themselves: behind Keras's own objects the converter does not see that
        # nothing writes to them, and exports empty ones.
        _refuse_tables(graph)
        variables.update({id(variable): variable for variable in graph.graph.variables})
        functions[key] = _serving(graph, len(source.inputs))
    module.weights = list(variables.values())
    # A file for inference has no gradients, and those of a rewritten graph cannot be saved.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    try:
        tf.saved_model.save(module, str(folder), signatures=functions, options=options)
    except OSError as error:
        raise ConversionError(
            f"no room for the weights in {folder} ({error.strerror}). Free space there, or name "
            "another folder in the variable TMPDIR."
        ) from error


def _refuse_tables(graph: TracedFunction) -> None:
    """Raises `ConversionError` for a lookup table, which is neither a variable nor a constant."""
    import tensorflow as tf

    handles = {id(variable.handle) for variable in graph.graph.variables}
    for outer, inner in graph.graph.captures:
        if inner.dtype == tf.resource and id(outer) not in handles:
            readers = [operation.name for operation in inner.consumers()]
            layers = sorted({layer_of(name) or name for name in readers})
            raise ConversionError(
                f"layer {', '.join(layers)} looks values up in a table, which TFLite cannot do for "
                "these types. Look them up before the model, and convert the model without it."
            )


def _serving(graph: TracedFunction, inputs: int) -> TracedFunction:
    """The concrete function of a signature; the first of the graph's inputs are those of it."""
    import tensorflow as tf

    names = safe_names("in", inputs)
    signature = {
        name: tf.TensorSpec(tensor.shape, tensor.dtype, name=name)
        for name, tensor in zip(names, graph.inputs[:inputs], strict=True)
    }

    def serve(**named: Tensor) -> dict[str, Tensor]:
        results = graph(*(named[name] for name in names))
        results = _told_apart(results, [_origin(output) for output in graph.outputs])
        return dict(zip(safe_names("out", len(results)), results, strict=True))

    return tf.function(serve, autograph=False).get_concrete_function(**signature)


_NOT_HANDED_OUT = frozenset(
    "Placeholder While StatelessWhile If StatelessIf TensorListStack TensorListGetItem".split()
)


def _origin(output: Tensor) -> Tensor:
    """The operation result that an output is, behind identities."""
    while output.op.type == "Identity":
        output = output.op.inputs[0]
    return output


def _told_apart(values: Sequence[Tensor], origins: Sequence[Tensor]) -> list[Tensor]:
    """The values, copied where one tensor would be two outputs, or an input and an output.

    LiteRT's CompiledModel reads garbage from such an input, and finds only one such output. It
    cannot hand out results of a loop or a branch either, because they are allocated as they come.
    """
    import tensorflow as tf

    latest: dict[str, Tensor] = {}
    results = []
    for value, origin in zip(values, origins, strict=True):
        if origin.op.type in _NOT_HANDED_OUT or origin.name in latest:
            # Each copy is made of the one before: the converter merges copies of the same.
            value = latest.get(origin.name, value)
            copy = tf.logical_or if value.dtype.is_bool else tf.maximum
            value = copy(value, value)  # an operator that the converter keeps
        latest[origin.name] = value
        results.append(value)
    return results
