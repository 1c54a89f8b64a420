"""Functions of single numbers that a format lacks."""

from functools import reduce

from tfmp.converters.intake.saved.graph import Gap, always
from tfmp.shared.backend import Tensor

# Single-precision approximation of Giles, "Approximating the erfinv function" (2010), table 5.
_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _erfinv(x: Tensor) -> Tensor:
    """A polynomial in w = -log(1 - x^2), one for w < 5 and one beyond."""
    import tensorflow as tf

    w = -tf.math.log((1.0 - x) * (1.0 + x))
    central = _polynomial(_CENTRAL, w - 2.5)
    # The root of a negative w - 0 cannot occur, but a choice evaluates both sides.
    tail = _polynomial(_TAIL, tf.sqrt(tf.maximum(w, 0.0)) - 3.0)
    finite = tf.where(w < 5.0, central, tail) * x
    return tf.where(tf.equal(tf.abs(x), 1.0), x * float("inf"), finite)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    return reduce(lambda total, own: total * x + own, coefficients)


def log1p(x: Tensor) -> Tensor:
    """log(u) / (u - 1) * x with u = fl(1 + x), or x where u is 1.

    Accurate where log(1 + x) loses every digit of a small x (Goldberg 1991, theorem 4).
    """
    import tensorflow as tf

    # The bound changes no logarithm. It keeps TensorFlow from simplifying: (1 + x) - 1 to x.
    u = tf.maximum(1.0 + x, -1.0)
    infinite = tf.math.is_inf(u)
    exact = tf.equal(u, 1.0) | infinite
    corrected = tf.math.log(u) / tf.where(exact, tf.ones_like(u), u - 1.0) * x
    return tf.where(exact, tf.where(infinite, u, x), corrected)


def _expm1(x: Tensor) -> Tensor:
    """tanh(x / 2) (exp(x) + 1), which keeps the digits of a small x, where exp(x) - 1 cancels."""
    import tensorflow as tf

    return tf.tanh(0.5 * x) * (tf.exp(x) + 1.0)


ELEMENTARY: dict[str, Gap] = {
    "Erfinv": always(_erfinv),
    "Expm1": always(_expm1),
    "Log1p": always(log1p),
}
