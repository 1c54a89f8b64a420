"""Lets a model sum its losses in float64 where its weights are, and in one dtype everywhere.

Keras computes a loss in the dtype of its own policy, float32, and cannot add the penalties of
weights in another dtype to it.
"""

from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from tfmp.shared.backend import Tensor

_METHOD, _AGGREGATE = "compute_loss", "_aggregate_additional_loss"
_WIDE = "float64"


def let_loss_follow(model: keras.Model) -> None:
    """Gives the loss the dtype of the weights if they are all float64, and float32 otherwise."""
    take_back(model)
    dtypes = {v.dtype for v in model.trainable_variables if "float" in v.dtype}
    if dtypes <= {"float32"} and not any(map(_penalizes_in_another, model._flatten_layers())):
        return
    dtype = _WIDE if dtypes == {_WIDE} else "float32"
    own = vars(model)
    compute, aggregate = model.compute_loss, model._aggregate_additional_loss
    changed: list[tuple[Any, Any]] = []

    def compute_loss(*args: Any, **kwargs: Any) -> Tensor:
        if dtype == _WIDE:
            _widen(model._compile_loss, changed)
        result = compute(*args, **kwargs)
        if dtype == _WIDE and _widen(model._compile_loss, changed):
            # The first call, in which Keras makes the losses of the outputs, in its floatx.
            result = compute(*args, **kwargs)
        return result

    def aggregate_in_one_dtype(loss: Tensor) -> Tensor:
        return ops.cast(aggregate(loss), dtype)

    def undo() -> None:
        for loss, policy in changed:
            _set(loss, policy)
        del own[_METHOD], own[_AGGREGATE]

    compute_loss.undo = undo  # type: ignore[attr-defined]
    own[_METHOD], own[_AGGREGATE] = compute_loss, aggregate_in_one_dtype


def _penalizes_in_another(layer: keras.layers.Layer) -> bool:
    """Whether a layer adds a penalty of its results to the loss, in another dtype than float32."""
    return layer.activity_regularizer is not None and layer.compute_dtype != "float32"


def take_back(model: keras.Model) -> None:
    """Undoes `let_loss_follow`."""
    undo = getattr(vars(model).get(_METHOD), "undo", None)
    if undo is not None:
        undo()


def _widen(loss: Any, changed: list[tuple[Any, Any]]) -> bool:
    """Makes a compiled loss, and the losses in it, compute in float64; whether any did not."""
    narrow = [part for part in _parts(loss) if part.dtype != _WIDE]
    for part in narrow:
        changed.append((part, part._dtype_policy))
        _set(part, keras.DTypePolicy(_WIDE))
    return bool(narrow)


def _set(loss: Any, policy: keras.DTypePolicy) -> None:
    loss._dtype_policy, loss._dtype = policy, policy.compute_dtype


def _parts(loss: Any) -> Iterator[Any]:
    """The compiled loss, and the losses of the outputs that it is made of."""
    if loss is None:
        return
    yield loss
    for part in keras.tree.flatten(getattr(loss, "_flat_losses", None) or []):
        if isinstance(part, keras.losses.Loss):
            yield part
