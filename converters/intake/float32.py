"""Runs Keras models in float32 for one call, also if they were trained in 16 or 64 bits."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tfmp.converters.shared.frameworks import KerasLayer, KerasModel, Variable

_OTHER_FLOATS = ("float16", "bfloat16", "float64")


def other_layers(model: KerasModel) -> list[KerasLayer]:
    """The layers that compute in 16 or 64 bits and are not quantized."""
    return [
        layer
        for layer in model._flatten_layers()
        if layer.dtype_policy.quantization_mode is None
        and layer.dtype_policy.name.endswith(_OTHER_FLOATS)
    ]


def float32_weights(model: KerasModel) -> list[tuple[Variable, Variable]]:
    """The weights that are held in 16 or 64 bits, each with a float32 copy.

    Under the policies "float16" and "bfloat16" there are no float32 masters.
    """
    import tensorflow as tf

    return [
        (variable, tf.Variable(tf.cast(variable.value, tf.float32), name=variable.path))
        for variable in model.variables
        if variable.dtype in _OTHER_FLOATS
    ]


def precision_note(model: KerasModel) -> tuple[str, ...]:
    """A note for the report on a model of other floats than float32; empty for any other model."""
    names = sorted({layer.dtype_policy.name for layer in other_layers(model)})
    if not names:
        return ()
    mixed = any(name.startswith("mixed") for name in names)
    bits = 64 if names == ["float64"] else 16
    weights = "its master weights" if mixed else f"its {bits}-bit weights, the only ones it has"
    return (f"trained under {', '.join(names)}: converted in float32 from {weights}",)


def in_float32(
    model: KerasModel, widened: Sequence[tuple[Variable, Variable]]
) -> AbstractContextManager[None]:
    """Computes in float32 inside, and without cuDNN's fused cells, which no format knows.

    Args:
        model: the model; it is as before when the context ends.
        widened: the result of `float32_weights` for this model.
    """
    import keras

    layers = model._flatten_layers()
    functions = [layer for layer in layers if isinstance(layer, keras.Function)]
    fused = [layer for layer in layers if getattr(layer, "use_cudnn", False)]
    # A functional model casts what it is called with to the dtypes that these have.
    declared = [x for one in functions for x in one.inputs if x.dtype in _OTHER_FLOATS]
    policy = keras.DTypePolicy("float32")
    return replaced(
        [
            *((layer, "dtype_policy", policy) for layer in other_layers(model)),
            *((layer, "use_cudnn", False) for layer in fused),
            *((tensor, "_dtype", "float32") for tensor in declared),
            *((variable, "_value", wide) for variable, wide in widened),
            *((variable, "_dtype", "float32") for variable, _ in widened),
        ]
    )


@contextmanager
def replaced(attributes: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Gives objects other values inside, each under the name of an attribute."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, value in attributes:
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)
