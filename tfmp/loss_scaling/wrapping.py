"""Checks of the optimizers that a LossScaleOptimizer wraps, and who wraps which."""

import gc
import weakref

import keras
from keras.optimizers import Optimizer

from tfmp.shared.backend import Tensor, current_backend
from tfmp.shared.wording import shown

# Which wrapper drives an inner optimizer: two of them would both move its moments.
_WRAPPER_OF: "weakref.WeakKeyDictionary[Optimizer, weakref.ref[Optimizer]]"
_WRAPPER_OF = weakref.WeakKeyDictionary()


def claim(inner: Optimizer, wrapper: Optimizer) -> None:
    """Notes that `wrapper` drives `inner` from now on."""
    _WRAPPER_OF[inner] = weakref.ref(wrapper)


def release(inner: Optimizer) -> None:
    """Frees `inner` to be wrapped again."""
    _WRAPPER_OF.pop(inner, None)


def wrapper_of(inner: Optimizer) -> Optimizer | None:
    """The wrapper that drives `inner`, or None."""
    reference = _WRAPPER_OF.get(inner)
    return None if reference is None else reference()


def check_inner(inner: Optimizer) -> None:
    """Accepts an optimizer that can be wrapped.

    Raises:
        TypeError: it is not an optimizer.
        ValueError: the backend is not supported, or the optimizer scales the loss or is wrapped
            already.
    """
    current_backend()  # raises for one that is not supported
    if not isinstance(inner, keras.optimizers.Optimizer):
        raise TypeError(
            "LossScaleOptimizer expects a keras.optimizers.Optimizer as inner_optimizer, received "
            f"{shown(inner)}. For a name, use keras.optimizers.get(name)."
        )
    if isinstance(inner, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "LossScaleOptimizer expects an optimizer without loss scaling, received a "
            f"{type(inner).__name__}: gradients would be divided twice. Wrap its inner_optimizer "
            "instead, or compile with auto_scale_loss=False."
        )
    if inner.loss_scale_factor is not None:
        raise ValueError(
            "LossScaleOptimizer expects an inner optimizer without a loss scale of its own, "
            f"received loss_scale_factor={inner.loss_scale_factor!r}. Set it to None and pass "
            f"loss_scale={inner.loss_scale_factor!r} here to keep that scale."
        )
    if _live_wrapper(inner) is not None:
        raise ValueError(
            "LossScaleOptimizer expects an inner optimizer of its own, received "
            f"{inner.name!r}, which another LossScaleOptimizer already drives: two wrappers would "
            "both move its moments. Use that wrapper, call its unwrap() first, or create a second "
            "optimizer."
        )


def _live_wrapper(inner: Optimizer) -> Optimizer | None:
    if wrapper_of(inner) is not None:
        gc.collect()  # wrappers of discarded models often wait in a reference cycle
    return wrapper_of(inner)


def check_known(inner: Optimizer, var_list: list[keras.Variable]) -> None:
    """Accepts variables that an optimizer was built with.

    Raises:
        ValueError: it was built without some of them.
    """
    known = inner._trainable_variables_indices
    new = [variable.path for variable in var_list if inner._var_key(variable) not in known]
    if new:
        raise ValueError(
            "LossScaleOptimizer expects an inner optimizer that was built for these variables, "
            f"received one built for {len(known)} others. It does not know {len(new)} of the "
            f"{len(var_list)} given, such as {new[0]!r}. After adding layers, unfreezing them or "
            "enabling LoRA, compile the model with a new optimizer; tfmp.revert(model) before that "
            "gives the float32 model back."
        )


def check_stateless(
    optimizer: Optimizer,
    optimizer_variables: list[Tensor],
    grads: list[Tensor | None],
    trainable_variables: list[Tensor],
) -> None:
    """Accepts arguments of `stateless_apply` that can be paired with the variables.

    Raises:
        ValueError: the optimizer is not built, or there are more or fewer of some arguments.
    """
    if not optimizer.built:
        raise ValueError(
            "LossScaleOptimizer.stateless_apply expects a built optimizer, received one "
            "without variables. Call optimizer.build(model.trainable_variables) first."
        )
    for name, received, expected in (
        ("optimizer_variables", optimizer_variables, optimizer.variables),
        ("grads", grads, optimizer._trainable_variables),
        ("trainable_variables", trainable_variables, optimizer._trainable_variables),
    ):
        if len(received) != len(expected):
            raise ValueError(
                f"LossScaleOptimizer.stateless_apply expects {len(expected)} values in "
                f"`{name}`, one for each variable that it was built with, received "
                f"{len(received)}. After adding, freezing or unfreezing layers, compile the model "
                "with a new optimizer."
            )
