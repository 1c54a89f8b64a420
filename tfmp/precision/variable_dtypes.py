"""Gives variables another dtype in place: layers, optimizers and files know them as objects."""

from collections.abc import Iterator

import keras
from keras import ops


def convert(variable: keras.Variable, dtype: str) -> None:
    """Rounds the values of a variable to a dtype that it has from now on.

    Functions that were traced with it before have to be traced anew.
    """
    value = ops.cast(ops.convert_to_tensor(variable.value), dtype)
    variable._dtype = dtype
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        before = variable._value
        with tf.init_scope():
            variable._initialize(value)
        # Optimizers find a weight's place by it.
        variable._value._unique_id = before._unique_id
    else:
        variable._initialize(value)


def check_convertible(model: keras.Model) -> None:
    """Accepts models whose variables can get another dtype.

    Raises:
        ValueError: the variables are mirrored on several devices.
    """
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    if any(isinstance(v._value, tf.distribute.DistributedValues) for v in model.variables):
        raise ValueError(
            "A plan with weights in another dtype expects variables on one device; those of model "
            f"{model.name!r} are mirrored. Make the model in the strategy's scope under "
            "keras.config.set_dtype_policy('float16'), for example, or plan a mixed policy."
        )


def let_optimizer_follow(model: keras.Model) -> None:
    """Gives the optimizer's moments the dtypes of the weights that they belong to."""
    optimizer = getattr(model, "optimizer", None)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    if optimizer is None or not optimizer.built:
        return
    weights = optimizer._trainable_variables
    for moments in _lists_of_moments(optimizer, len(weights)):
        for weight, moment in zip(weights, moments, strict=True):
            if _is_float(moment) and moment.dtype != weight.dtype:
                convert(moment, weight.dtype)


def _is_float(entry: object) -> bool:
    return isinstance(entry, keras.Variable) and "float" in entry.dtype


def _lists_of_moments(optimizer: keras.optimizers.Optimizer, length: int) -> Iterator[list]:
    """The attributes of an optimizer that have an entry for each weight."""
    for name, value in vars(optimizer).items():
        if name == "_trainable_variables" or not isinstance(value, list) or len(value) != length:
            continue
        if any(isinstance(entry, keras.Variable) for entry in value) and name != "_variables":
            yield value
