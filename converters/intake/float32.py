"""Runs Keras models in float32 for one call, also if they were trained in 16 or 64 bits."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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


@contextmanager
def in_float32(model: KerasModel, widened: Sequence[tuple[Variable, Variable]]) -> Iterator[None]:
    """Computes in float32 inside, and without cuDNN's fused cells, which no format knows.

    Args:
        model: the model; it is as before when the context ends.
        widened: the result of `float32_weights` for this model.
    """
    import keras

    policies = [(layer, layer.dtype_policy) for layer in other_layers(model)]
    fused = [layer for layer in model._flatten_layers() if getattr(layer, "use_cudnn", False)]
    choices = [layer.use_cudnn for layer in fused]
    functions = [layer for layer in model._flatten_layers() if isinstance(layer, keras.Function)]
    # A functional model casts what it is called with to the dtypes that these have.
    declared = [(x, x.dtype) for function in functions for x in function.inputs]
    held = [(variable, variable._value, variable._dtype) for variable, _ in widened]
    for layer, _ in policies:
        layer.dtype_policy = keras.DTypePolicy("float32")
    for layer in fused:
        layer.use_cudnn = False
    for tensor, dtype in declared:
        tensor._dtype = "float32" if dtype in _OTHER_FLOATS else dtype
    for variable, wide in widened:
        variable._value, variable._dtype = wide, "float32"
    try:
        yield
    finally:
        for layer, policy in policies:
            layer.dtype_policy = policy
        for layer, choice in zip(fused, choices, strict=True):
            layer.use_cudnn = choice
        for tensor, dtype in declared:
            tensor._dtype = dtype
        for variable, value, dtype in held:
            variable._value, variable._dtype = value, dtype
