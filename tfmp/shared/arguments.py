"""Checks of arguments: one for each kind of value, each with one wording.

Every error names the argument, the expected values and the received one. `hint` is a sentence with
the next step.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeGuard

from tfmp.shared.wording import shown

if TYPE_CHECKING:
    import keras


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy; True and False do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite real number of Python or NumPy; True and False do not count."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_count(name: str, value: object, least: int = 1, hint: str = "") -> int:
    """The value as an `int`.

    Raises:
        ValueError: it is not a whole number, or less than `least`.
    """
    if not (is_whole_number(value) and value >= least):
        raise ValueError(_mistake(name, f"a whole number, {least} or more", value, hint))
    return int(value)


def check_number(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    hint: str = "",
) -> None:
    """Accepts a finite number that is at least `least` and between `above` and `below`.

    Raises:
        ValueError: it is another value, or outside these bounds.
    """
    if is_number(value) and least <= value and above < value < below:
        return
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("of at least", least), ("above", above), ("below", below))
        if math.isfinite(bound)
    ]
    expected = f"a finite number {' and '.join(bounds)}".rstrip()
    raise ValueError(_mistake(name, expected, value, hint))


def check_choice(name: str, value: object, choices: Sequence[str], hint: str = "") -> None:
    """Accepts one of the choices.

    Raises:
        ValueError: it is another value.
    """
    if not (isinstance(value, str) and value in choices):
        raise ValueError(_mistake(name, f"one of {', '.join(map(repr, choices))}", value, hint))


def check_flag(name: str, value: object, hint: str = "") -> None:
    """Accepts True and False.

    Raises:
        ValueError: it is another value.
    """
    if not isinstance(value, bool):
        raise ValueError(_mistake(name, "True or False", value, hint))


OF_KERAS_2 = (
    "It is a model of Keras 2 (tf_keras), which tfmp converts and does not train. Build it with "
    "Keras 3 (import keras) to train it in mixed precision."
)


def is_keras2(value: object) -> bool:
    """Whether a model is one of tf_keras, which must have been imported to make it."""
    tf_keras = sys.modules.get("tf_keras")
    return tf_keras is not None and isinstance(value, tf_keras.Model)


def check_model(value: object) -> None:
    """Accepts a Keras model.

    Raises:
        TypeError: it is something else.
    """
    import keras

    if not isinstance(value, keras.Model):
        hint = "Pass the model itself; load a file with keras.models.load_model(path)."
        if is_keras2(value):
            hint = OF_KERAS_2
        raise TypeError(_mistake("model", "a keras.Model", value, hint))


def check_compiled(model: "keras.Model", needs_optimizer: bool = True) -> None:
    """Accepts a compiled model.

    Args:
        model: the model.
        needs_optimizer: whether its training step is taken, rather than only looked at.

    Raises:
        ValueError: it is not compiled, or has no optimizer that it needs.
    """
    if not model.compiled or (needs_optimizer and model.optimizer is None):
        missing = "has no optimizer" if model.compiled else "is not compiled"
        raise ValueError(
            f"Model {model.name!r} {missing}, so it has no training step. Call "
            "model.compile(optimizer, loss) first."
        )


def made_by(build: Callable[[], object], name: str) -> "keras.Model":
    """The compiled model that a user's function returns; errors call the function `name`.

    Layers without a name have the same ones in each model of a function, so that patterns fit all.

    Raises:
        TypeError: it does not return a Keras model.
        ValueError: the model is not compiled.
    """
    import keras
    from keras.src.backend.common import global_state

    numbers = global_state.get_global_attribute("object_name_uids", defaultdict(int))
    global_state.set_global_attribute("object_name_uids", numbers.copy())
    model = build()
    global_state.set_global_attribute("object_name_uids", numbers)
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"{name} has to return a compiled keras.Model; it returned {type(model).__name__}."
        )
    check_compiled(model)
    return model


def _mistake(name: str, expected: str, value: object, hint: str) -> str:
    return f"{name} expects {expected}; received {shown(value)}. {hint}".rstrip()
