"""Models of Keras 2 as a `Source`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfmp.converters.intake.keras2.reader import ModelFile
from tfmp.converters.intake.source import Origin, Source, unique_name
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.frameworks import KerasModel
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.shared.backend import Tensor


def from_keras2(file: ModelFile, path: Path | None, notes: tuple[str, ...] = ()) -> Source:
    """Opens a model of Keras 2.

    Args:
        file: the model.
        path: the file that it was read from; None for a live model.
        notes: on how the file was opened.

    Raises:
        InputError: the shapes of the inputs are not known, or a live model is not in float32.
        ConversionError: a layer fails while it is traced.
    """
    import tensorflow as tf

    model = file.model
    tensors = tf.nest.flatten(getattr(model, "inputs", None) or [])
    if not tensors:
        raise InputError(
            "this file does not tell the shapes of the model's inputs. Build the model, "
            "call it once on a batch and save it again."
            if path
            else f"model {model.name!r} of Keras 2 does not tell the shapes of its inputs. Call it "
            "once on a batch, save it with model.save('folder', save_format='tf'), and pass that."
        )
    layers = () if path else model._flatten_layers(include_self=False)
    for layer in layers:
        if layer.compute_dtype in ("float16", "bfloat16"):
            raise InputError(
                f"model {model.name!r}: its layer {layer.name!r} computes in "
                f"{layer.dtype_policy.name}. Save it and pass the file, which is read in float32."
            )
    inputs = tuple(
        TensorSpec(name, tuple(tensor.shape), tensor.dtype.name)
        for name, tensor in zip(model.input_names, tensors, strict=True)
    )
    taken = {spec.name for spec in inputs}
    declared: list[str] = []
    for name in model.output_names:
        declared.append(unique_name(name, {*taken, *declared}))

    def call(named: dict[str, Tensor]) -> dict[str, Tensor]:
        structure = getattr(model, "_nested_inputs", tensors)
        packed = tf.nest.pack_sequence_as(structure, [named[spec.name] for spec in inputs])
        results = tf.nest.flatten(model(packed, training=False))
        for value, known in zip(results, tf.nest.flatten(model.outputs), strict=True):
            if value.shape.rank is None:
                value.set_shape(known.shape)
        return dict(zip(declared, results, strict=True))

    origin = Origin.of_keras(model, path, (*notes, *file.notes))
    return Source.traced(origin, inputs, call, model.variables, lambda: _marked_layers(model))


@contextmanager
def _marked_layers(model: KerasModel) -> Iterator[dict[str, str]]:
    """Lets each layer of `model` put its ops into a name scope of its own; gives names by scope."""
    names, marked = {}, []
    for index, layer in enumerate(dict.fromkeys(model._flatten_layers(include_self=False))):
        scope = f"tfmp_layer_{index}"
        names[scope] = layer.name
        marked.append(layer)
        # Not setattr: Keras tracks what is set on a layer.
        vars(layer)["_get_unnested_name_scope"] = lambda scope=scope: scope
    try:
        yield names
    finally:
        for layer in marked:
            del vars(layer)["_get_unnested_name_scope"]
