"""A Keras model in float32, whatever precision it was trained in, for the length of a call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tfmp.converters.shared.frameworks import KerasLayer, KerasModel, Variable

_NARROW = ("float16", "bfloat16")


def narrow_layers(model: KerasModel) -> list[KerasLayer]:
    """Layers that compute in 16 bits and are not quantized."""
    return [
        layer
        for layer in model._flatten_layers()
        if layer.dtype_policy.quantization_mode is None and "float16" in layer.dtype_policy.name
    ]


def widened_weights(model: KerasModel) -> list[tuple[Variable, Variable]]:
    """The weights that are held in 16 bits, each with a float32 copy.

    Under the policies "float16" and "bfloat16" there are no float32 masters.
    """
    import tensorflow as tf

    return [
        (variable, tf.Variable(tf.cast(variable.value, tf.float32), name=variable.path))
        for variable in model.variables
        if variable.dtype in _NARROW
    ]


def precision_note(model: KerasModel) -> tuple[str, ...]:
    """What the report says about it: nothing of a model that was trained in float32."""
    names = sorted({layer.dtype_policy.name for layer in narrow_layers(model)})
    if not names:
        return ()
    mixed = any(name.startswith("mixed") for name in names)
    weights = "master weights" if mixed else "its 16-bit weights, which are all there is"
    return (f"trained under {', '.join(names)}: converted in float32 from {weights}",)


@contextmanager
def in_float32(model: KerasModel, widened: Sequence[tuple[Variable, Variable]]) -> Iterator[None]:
    """Computes in float32 inside, and without cuDNN's fused cells, which no format knows.

    Args:
        model: as it was before when this ends.
        widened: what `widened_weights` gave for it.
    """
    import keras

    policies = [(layer, layer.dtype_policy) for layer in narrow_layers(model)]
    fused = [layer for layer in model._flatten_layers() if getattr(layer, "use_cudnn", False)]
    choices = [layer.use_cudnn for layer in fused]
    held = [(variable, variable._value, variable._dtype) for variable, _ in widened]
    for layer, _ in policies:
        layer.dtype_policy = keras.DTypePolicy("float32")
    for layer in fused:
        layer.use_cudnn = False
    for variable, wide in widened:
        variable._value, variable._dtype = wide, "float32"
    try:
        yield
    finally:
        for layer, policy in policies:
            layer.dtype_policy = policy
        for layer, choice in zip(fused, choices, strict=True):
            layer.use_cudnn = choice
        for variable, value, dtype in held:
            variable._value, variable._dtype = value, dtype
