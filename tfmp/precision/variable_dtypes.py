"""Gives variables another dtype in place: layers, optimizers and files know them as objects."""

from collections.abc import Iterator

import keras

from tfmp.shared.backend import current_backend


def check_convertible(model: keras.Model) -> None:
    """Accepts models whose variables can get another dtype.

    Raises:
        ValueError: the variables are mirrored on several devices.
    """
    if current_backend().mirrored(model.variables):
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
                current_backend().give_dtype(moment, weight.dtype)


def _is_float(entry: object) -> bool:
    return isinstance(entry, keras.Variable) and "float" in entry.dtype


def _lists_of_moments(optimizer: keras.optimizers.Optimizer, length: int) -> Iterator[list]:
    """The attributes of an optimizer that have an entry for each weight."""
    for name, value in vars(optimizer).items():
        if name == "_trainable_variables" or not isinstance(value, list) or len(value) != length:
            continue
        if any(isinstance(entry, keras.Variable) for entry in value) and name != "_variables":
            yield value
