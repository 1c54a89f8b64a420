"""Writes sources as a SavedModel that TensorFlow's converter turns into a right .tflite file."""

from collections.abc import Mapping
from pathlib import Path

from tfmp.converters.intake import Source, cut_behind
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import TracedFunction
from tfmp.converters.shared.scopes import variable_names
from tfmp.converters.tflite.file import layer_of, safe_names
from tfmp.shared.backend import Tensor


def write_saved_model(
    signatures: Mapping[str, Source],
    batch_sizes: Mapping[str, int | None],
    folder: Path,
    allow_flex: bool,
) -> None:
    """Writes the forward passes with safe names; weights that they share are written once.

    Args:
        signatures: sources by the names of their signatures.
        batch_sizes: samples of the inputs that leave the number open, by signature; None keeps it
            open.
        folder: the folder to write to.
        allow_flex: whether TensorFlow ops may stay in the file.

    Raises:
        ConversionError: there is no room for the weights, or a layer reads a table or texts.
    """
    import tensorflow as tf

    module = tf.Module()
    functions, variables = {}, {}
    for key, source in signatures.items():
        size, pinned = batch_sizes[key], not any(map(source.layout.any_samples, source.inputs))
        graph = source.graph if pinned or size is None else source.trace(size)
        # The variables themselves: behind Keras's own objects the converter does not see that
        # nothing writes to them, and exports empty ones.
        _refuse_lookups(graph, source, allow_flex)
        variables.update({id(variable): variable for variable in graph.graph.variables})
        functions[key] = _serving(graph, len(source.inputs))
    module.weights = list(variables.values())
    # A file for inference has no gradients, and those of a rewritten graph cannot be saved.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    try:
        with variable_names(module.weights):
            tf.saved_model.save(module, str(folder), signatures=functions, options=options)
    except OSError as error:
        raise ConversionError(
            f"no room for the weights in {folder} ({error.strerror}). Free space there, or name "
            "another folder in the variable TMPDIR."
        ) from error


def _refuse_lookups(graph: TracedFunction, source: Source, texts: bool) -> None:
    """Raises `ConversionError` for a layer that reads a table, or else makes numbers of texts."""
    for one in graph.graph.get_operations():
        of_texts = one.type.startswith(("StringTo", "ParseExample")) and not texts
        if of_texts or one.type.startswith("LookupTable"):
            layer = layer_of(one.name) or one.name
            raise ConversionError(
                f"layer {layer} looks values up in a table or makes numbers of texts, which TFLite "
                "cannot. Do that step before the model, and pass its results as data"
                f"{cut_behind(source, layer)}."
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
        return dict(zip(safe_names("out", len(results)), results, strict=True))

    return tf.function(serve, autograph=False).get_concrete_function(**signature)
