"""Metrics of the user's own: a function of predictions and labels."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.user_functions import import_function, place_of

# Arrays by output name, or the array of the only output.
Predictions = np.ndarray | Mapping[str, np.ndarray]

_FORM = (
    "expected FILE.py:function, or a function of predictions and labels that returns a "
    "number, or a number for each sample"
)


# Of scikit-learn's functions: the name of their first argument, and the ends of names of those that
# return a number to minimize ("Metrics and scoring", section 3.4.3 of its user guide).
_LABELS_FIRST = "y_true"
_LOSSES = ("_error", "_loss", "_deviance")


class MetricError(Exception):
    """A failure of the user's function; its text says in what, and on what."""


class CustomMetric:
    """A function of predictions and labels that says how good predictions are.

    `Plan.metrics` and `Comparison(..., metrics=...)` take a tuple of them; see `custom_metrics`.
    The function gets

    - predictions: the array of the only output, or a dict of arrays by output name;
    - labels: as the user passed them, an array or a dict of arrays.

    Samples lie along axis 0. Where their shapes differ, an array is one of objects, with an array
    for each sample. It returns a number for all of these samples, or an array with a number for
    each; their mean is the metric then, and no predictions need to be kept. NaN for a sample of
    both models leaves it out. A higher value is better, unless the function has an attribute
    `lower_is_better` that is true.

    Two conventions of others are known. A function whose first argument is called `y_true`, as in
    scikit-learn, gets the labels first, and a lower value is better if its name ends in "_error",
    "_loss" or "_deviance". A Keras metric, as a class or an object, is reset, updated and asked for
    its result.

    A metric travels to other processes by its name where it can be imported there.

    Attributes:
        name: "FILE.py:function".
    """

    def __init__(self, name: str, function: Callable[..., Any] | None, folder: str) -> None:
        """Takes a function, or imports it when it is first called; see `of`.

        Args:
            name: "FILE.py:function".
            function: the function; None to import it.
            folder: a folder where its module is found, if it is not installed.
        """
        self.name = name
        self._function = function
        self._folder = folder

    @classmethod
    def of(cls, metric: "str | Callable[..., Any] | CustomMetric") -> "CustomMetric":
        """A metric by its name, or of a callable; imported and checked.

        Raises:
            InputError: there is no such function, or it does not take predictions and labels.
        """
        if isinstance(metric, CustomMetric):
            return metric
        if isinstance(metric, str):
            found = cls(metric, None, os.getcwd())
        elif not callable(metric):
            raise InputError(f"metric: {_FORM}; received {metric!r} ({type(metric).__name__}).")
        elif _is_keras_metric(metric) and not isinstance(metric, type):
            # Its class would be another metric: the object has arguments.
            name = f"{type(metric).__module__}:{getattr(metric, 'name', 'metric')}"
            found = cls(name, metric, os.getcwd())
        else:
            named = metric if hasattr(metric, "__qualname__") else type(metric)
            found = cls(f"{named.__module__}:{named.__qualname__}", metric, os.getcwd())
        found._check()
        return found

    @property
    def title(self) -> str:
        """The name of the function without its module."""
        return self.name.rpartition(":")[2]

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is a better one."""
        # Keras says it where a callback asks which of two values is the better one.
        falls = getattr(self._keras, "_direction", None) == "down"
        if _takes_labels_first(self.function):
            falls = self.name.endswith(_LOSSES)
        return bool(getattr(self.function, "lower_is_better", falls))

    @property
    def function(self) -> Callable[..., Any]:
        """The function, imported if need be.

        Raises:
            InputError: it cannot be imported.
        """
        if self._function is None:
            self._function = self._imported()
        return self._function

    @cached_property
    def _keras(self) -> Any:
        """The Keras metric, made if its class was given; None for a function."""
        function = self.function
        if not _is_keras_metric(function):
            return None
        try:
            return function() if isinstance(function, type) else function
        except TypeError as error:
            raise InputError(
                f"metric {self.name!r} is a Keras metric that needs arguments: {error}. Name an "
                "object in place of the class: in a module of yours, write metric = "
                f"{self.title}(...), and pass FILE.py:metric."
            ) from error

    def _value(self, predictions: Predictions, labels: Any) -> Any:
        if self._keras is not None:
            self._keras.reset_state()
            self._keras.update_state(labels, predictions)
            result = np.asarray(self._keras.result())
            return result.reshape(()) if result.size == 1 else result
        if _takes_labels_first(self.function):
            return self.function(labels, predictions)
        return self.function(predictions, labels)

    def __call__(self, predictions: Predictions, labels: Any, samples: int) -> float | np.ndarray:
        """The value for some samples.

        Args:
            predictions: see the class.
            labels: see the class.
            samples: number of samples.

        Returns:
            A number, or an array of shape (samples,).

        Raises:
            MetricError: the function raised an error, or returned something else.
        """
        try:
            value = np.asarray(self._value(predictions, labels), np.float64)
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            received = f"It received {_shapes(predictions, labels)}."
            raise MetricError(
                f"metric {self.name!r} raised {type(error).__name__}: {error}{place_of(error)}. "
                f"{received}"
            ) from error
        if value.ndim == 0:
            return float(value)
        if value.shape == (samples, *[1] * (value.ndim - 1)):
            value = value.reshape(samples)
        if value.shape == (samples,):
            return value
        raise MetricError(
            f"metric {self.name!r} returned an array of shape {value.shape}; expected a number, or "
            f"an array of shape ({samples},), a number for each sample. It received "
            f"{_shapes(predictions, labels)}."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # By name where that leads back to the function: other processes may not be able to load
        # the folder's modules before they know the folder.
        return CustomMetric, (
            self.name,
            None if self._importable() else self._function,
            self._folder,
        )

    def _check(self) -> None:
        function = self.function
        if not callable(function):
            raise InputError(
                f"metric {self.name!r} is no function: {_FORM}; received {function!r} "
                f"({type(function).__name__})."
            )
        signature = None if self._keras is not None else _signature(function)
        try:
            if signature is not None:
                signature.bind(None, None)
        except TypeError as error:
            raise InputError(
                f"metric {self.name!r} takes {signature}, and cannot be called with two arguments, "
                f"predictions and labels: {error}. Wrap it in a function of these two."
            ) from error

    def _imported(self) -> Callable[..., Any]:
        module, colon, function = self.name.rpartition(":")
        what = f"metric {self.name!r}"
        if not (colon and module and function.isidentifier()):
            raise InputError(f"{what} cannot be read: {_FORM}.")
        found: Callable[..., Any] = import_function(what, module, function, self._folder)
        return found

    def _importable(self) -> bool:
        if self._function is None:
            return True
        module, _, function = self.name.rpartition(":")
        loaded = sys.modules.get(module)
        if module.endswith(".py"):
            return True
        # __main__ is another module in another process.
        return module != "__main__" and getattr(loaded, function, None) is self._function


def custom_metrics(metrics: Any) -> tuple[CustomMetric, ...]:
    """The metrics that a user declares: None, one, or several.

    Args:
        metrics: "FILE.py:function", a function of predictions and labels, or a list of
            them.

    Raises:
        InputError: one of them cannot be used, or is named twice.
    """
    if metrics is None:
        return ()
    given = list(metrics) if isinstance(metrics, list | tuple) else [metrics]
    found = tuple(CustomMetric.of(metric) for metric in given)
    names = [metric.name for metric in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"metric {name!r} is named twice. Name each metric once.")
    return found


def _is_keras_metric(metric: Any) -> bool:
    return all(hasattr(metric, name) for name in ("reset_state", "update_state", "result"))


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # a function of C's says nothing about its arguments
        return None


def _takes_labels_first(function: Callable[..., Any]) -> bool:
    signature = _signature(function)
    return signature is not None and next(iter(signature.parameters), "") == _LABELS_FIRST


def _shapes(predictions: Predictions, labels: Any) -> str:
    return f"predictions {_shape(predictions)} and labels {_shape(labels)}"


def _shape(arrays: Any) -> str:
    if isinstance(arrays, Mapping):
        return "{" + ", ".join(f"{name!r}: {_shape(array)}" for name, array in arrays.items()) + "}"
    return f"of shape {np.shape(arrays)}"
