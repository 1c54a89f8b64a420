"""Gradients as the loss-scale optimizer sees them: unscaled, and judged finite or not."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
from keras import backend, ops


def unscale(grad: Any, scale: Any) -> Any:
    """The gradient divided by `scale`, at least in float32; a sparse one stays sparse."""
    if _is_sparse(grad):
        return type(grad)(ops.divide(grad.values, scale), grad.indices, grad.dense_shape)
    return ops.divide(grad, scale)


def all_finite(grads: Sequence[Any], scale: Any, scale_floor: float, replicas: int) -> list[Any]:
    """Whether each gradient, once unscaled and summed over replicas, is finite.

    The check is on the scaled gradients of this replica, because the unscaled ones are never
    materialized where a compiler fuses the division into the update. So that the verdict is on
    what will be applied, a gradient whose quotient or sum could overflow counts as not finite.

    Args:
        grads: scaled gradients, none of them None; of sparse ones only their rows are read.
        scale: what they will be divided by.
        scale_floor: a lower bound of `scale` that is known without running anything.
        replicas: over how many replicas they will be summed.

    Returns:
        One boolean scalar per gradient.
    """
    # Twice an equal share, so that rounding in the sum cannot push it over either.
    safe_scale = 1.0 if replicas == 1 else 2.0 * replicas
    verdicts = []
    for grad in grads:
        values = grad.values if _is_sparse(grad) else grad
        if scale_floor >= safe_scale:
            verdicts.append(ops.all(ops.isfinite(values)))
            continue
        largest = float(ml_dtypes.finfo(backend.standardize_dtype(values.dtype)).max)
        limit = ops.cast(largest * ops.minimum(scale / safe_scale, 1.0), values.dtype)
        verdicts.append(ops.all(ops.abs(values) <= limit))
    return verdicts


def _is_sparse(grad: Any) -> bool:
    # tf.IndexedSlices, recognized without importing TensorFlow under JAX.
    return hasattr(grad, "indices") and hasattr(grad, "dense_shape") and hasattr(grad, "values")
