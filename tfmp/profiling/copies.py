"""A second model like a first one, so that training it leaves the first as it was."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import tree
from keras.src.models import Functional
from keras.src.saving.serialization_lib import SafeModeScope

Batch = tuple[Any, Any, Any]


def copy_of(model: keras.Model | Callable[[], keras.Model], batch: Batch) -> keras.Model:
    """A second, compiled model with the same weights and a fresh optimizer of the same kind.

    Args:
        model: Sequential, Functional, or subclassed with a `get_config` that makes it again; or a
            function that returns a compiled model.
        batch: what to build a subclassed model on.

    Raises:
        TypeError: the function returns no Keras model.
        ValueError: the model cannot be made a second time, or is not compiled.
    """
    if not isinstance(model, keras.Model):
        made = model()
        if not isinstance(made, keras.Model):
            raise TypeError(
                "The function given as model expects to return a compiled keras.Model, it returned "
                f"{type(made).__name__}."
            )
        check_compiled(made)
        if not made.built:
            made(placed(batch)[0])
        return made
    check_compiled(model)
    try:
        # The user's own functions, from memory: nothing here comes from a file.
        with SafeModeScope(False):
            made = _made_again(model, batch)
        for target, source in zip(_kept(made), _kept(model), strict=True):
            target.assign(keras.ops.convert_to_numpy(source))
        made.compile(**compile_arguments(model))
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"Model {model.name!r} cannot be made a second time ({reason}). Give it a get_config, "
            "or pass a function that builds and compiles it: profile_training(build, data)."
        ) from error
    return made


def check_compiled(model: keras.Model) -> None:
    """Raises ValueError on a model without a training step."""
    if not model.compiled or model.optimizer is None:
        raise ValueError(
            f"A compiled model is expected, because its training step is measured; {model.name!r} "
            "is not compiled. Call model.compile(optimizer, loss) first."
        )


def _made_again(model: keras.Model, batch: Batch) -> keras.Model:
    if isinstance(model, keras.Sequential) or _is_plain_functional(model):
        return keras.models.clone_model(model)
    made = type(model).from_config(model.get_config())
    if not made.built:
        made(placed(batch)[0])
    return made


def _is_plain_functional(model: keras.Model) -> bool:
    return type(model) in (Functional, keras.Model)


def _kept(model: keras.Model) -> list[Any]:
    """What a copy gets of a model: weights and seeds, not the state of its metrics."""
    of_metrics = {id(variable) for variable in model.metrics_variables}
    return [variable for variable in model.variables if id(variable) not in of_metrics]


def compile_arguments(model: keras.Model) -> dict[str, Any]:
    """What the model was compiled with, so that nothing with state is shared."""
    arguments = dict(model._compile_config.config)
    optimizer = model.optimizer
    while isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    arguments["optimizer"] = type(optimizer).from_config(optimizer.get_config())
    for name in ("metrics", "weighted_metrics"):
        if arguments.get(name) is not None:
            arguments[name] = _fresh_metrics(arguments[name])
    return arguments


def _fresh_metrics(metrics: Any) -> Any:
    if isinstance(metrics, dict):
        return {name: _fresh_metrics(metric) for name, metric in metrics.items()}
    if isinstance(metrics, list | tuple):
        return [_fresh_metrics(metric) for metric in metrics]
    if isinstance(metrics, keras.Metric):
        return type(metrics).from_config(metrics.get_config())
    return metrics


def placed(batch: Batch) -> tuple[Any, ...]:
    """The batch as tensors on the device, in the form that `fit` hands to the step."""

    def tensor(value: Any) -> Any:
        array = np.asarray(value)
        dtype = keras.config.floatx() if array.dtype == np.float64 else None
        return keras.ops.convert_to_tensor(array, dtype=dtype)

    x, y, weight = (None if part is None else tree.map_structure(tensor, part) for part in batch)
    return (x, y) if weight is None else (x, y, weight)
