"""Copies of a model, so that training them does not change the model."""

from collections.abc import Callable
from typing import TypeAlias

import keras
from keras.src.models import Functional
from keras.src.saving.serialization_lib import SafeModeScope

from tfmp.precision import policy as policies
from tfmp.shared.arguments import OF_KERAS_2, check_compiled, is_keras2, made_by
from tfmp.shared.batches import TrainingBatch
from tfmp.shared.wording import first_line, shown

# A model, or a function without arguments that builds and compiles one.
ModelOrBuilder: TypeAlias = keras.Model | Callable[[], keras.Model]


def check_source(model: object, caller: str) -> None:
    """Accepts a model that can be trained, or a function.

    Raises:
        TypeError: it is something else.
        ValueError: the model is not compiled.
    """
    if isinstance(model, keras.Model):
        check_compiled(model)
    elif not callable(model) or is_keras2(model):
        hint = f" {OF_KERAS_2}" if is_keras2(model) else ""
        raise TypeError(
            f"{caller} expects a compiled Keras model or a function that returns one, received "
            f"{shown(model)}.{hint}"
        )


def copy_of(model: ModelOrBuilder, batch: TrainingBatch, policy: str) -> keras.Model:
    """A second, compiled model with the same weights and a new optimizer of the same kind.

    Args:
        model: Sequential, Functional, or subclassed with a `get_config` that makes it again; or a
            function that returns a compiled model.
        batch: the batch to build a subclassed model on.
        policy: the policy that it will train under: float64 is compiled with Keras's floatx.

    Raises:
        TypeError: the function does not return a Keras model.
        ValueError: the model cannot be made a second time, or is not compiled.
    """
    with policies.floatx_scope(policy):
        if isinstance(model, keras.Model):
            return _second(model, batch)
        made = made_by(model, "A function given as model")
        return _built(made, batch)


def _second(model: keras.Model, batch: TrainingBatch) -> keras.Model:
    check_compiled(model)
    try:
        # The user's own functions, from memory: nothing here comes from a file.
        with SafeModeScope(False):
            made = _made_again(model, batch)
        for target, source in zip(_kept(made), _kept(model), strict=True):
            target.assign(keras.ops.convert_to_numpy(source))
        made.compile(**compile_arguments(model))
    except Exception as error:
        raise ValueError(
            f"Model {model.name!r} cannot be made a second time ({first_line(error)}). Give it a "
            "get_config, or pass a function that builds and compiles it: "
            "profile_training(build, data)."
        ) from error
    return made


def _built(model: keras.Model, batch: TrainingBatch) -> keras.Model:
    if not model.built:
        model(batch.placed()[0])
    return model


def _made_again(model: keras.Model, batch: TrainingBatch) -> keras.Model:
    if isinstance(model, keras.Sequential) or type(model) in (Functional, keras.Model):
        return keras.models.clone_model(model)
    return _built(type(model).from_config(model.get_config()), batch)


def _kept(model: keras.Model) -> list[keras.Variable]:
    """The variables that a copy gets: weights and seeds, but not the state of metrics."""
    of_metrics = {id(variable) for variable in model.metrics_variables}
    return [variable for variable in model.variables if id(variable) not in of_metrics]


def compile_arguments(model: keras.Model) -> dict[str, object]:
    """The arguments that the model was compiled with; objects with state are made again."""
    arguments = dict(model._compile_config.config)
    optimizer = model.optimizer
    while isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    arguments["optimizer"] = type(optimizer).from_config(optimizer.get_config())
    for name in ("metrics", "weighted_metrics"):
        if arguments.get(name) is not None:
            arguments[name] = _fresh_metrics(arguments[name])
    return arguments


def _fresh_metrics(metrics: object) -> object:
    if isinstance(metrics, dict):
        return {name: _fresh_metrics(metric) for name, metric in metrics.items()}
    if isinstance(metrics, list | tuple):
        return [_fresh_metrics(metric) for metric in metrics]
    if isinstance(metrics, keras.Metric):
        return type(metrics).from_config(metrics.get_config())
    return metrics
