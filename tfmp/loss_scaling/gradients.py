"""Gradients in the loss-scale optimizer: divided by the scale, and checked for being finite."""

import ml_dtypes
from keras import backend, ops

from tfmp.shared.backend import Tensor, current_backend


def rescale(grad: Tensor, scale: Tensor) -> Tensor:
    """The gradient times `scale`; a sparse one stays sparse."""
    return current_backend().with_rows(grad, lambda values: ops.multiply(values, scale))


def not_finite_as_nan(grad: Tensor) -> Tensor:
    """The gradient with NaN in the place of infinities, which clipping would make finite."""

    def changed(values: Tensor) -> Tensor:
        return ops.where(ops.isfinite(_real(values)), values, float("nan"))

    return current_backend().with_rows(grad, changed)


def finite_values(grad: Tensor, scale: Tensor, scale_floor: float, replicas: int) -> Tensor:
    """Which values of a gradient, once unscaled and summed over replicas, are finite.

    The check reads the scaled gradients of this replica, because the unscaled ones are never
    materialized where a compiler fuses the division into the update. The verdict is about the
    gradients that will be applied: a gradient whose quotient or sum could overflow counts as not
    finite.

    Args:
        grad: the scaled gradient; of a sparse one only its rows are read.
        scale: the scale that it will be divided by.
        scale_floor: a lower bound of `scale` that is known without running anything.
        replicas: number of replicas that it will be summed over.

    Returns:
        Booleans of the gradient's shape.
    """
    values = _real(current_backend().rows(grad))
    if is_enough_to_be_finite(scale_floor, replicas):
        return ops.isfinite(values)
    largest = float(ml_dtypes.finfo(backend.standardize_dtype(values.dtype)).max)
    limit = ops.cast(largest * ops.minimum(scale / _safe_scale(replicas), 1.0), values.dtype)
    return ops.abs(values) <= limit


def is_enough_to_be_finite(scale_floor: float, replicas: int) -> bool:
    """Whether neither quotient nor sum of finite gradients overflows; as of `finite_values`."""
    return scale_floor >= _safe_scale(replicas)


def _safe_scale(replicas: int) -> float:
    # Twice an equal share, so that rounding in the sum cannot push it over either.
    return 1.0 if replicas == 1 else 2.0 * replicas


def _real(values: Tensor) -> Tensor:
    """The values, and for complex ones their magnitudes: operations of Keras take no others."""
    return ops.abs(values) if "complex" in backend.standardize_dtype(values.dtype) else values
