"""Operations on whole numbers that TFLite lacks: their bits."""

import numpy as np

from tfmp.converters.intake import Filling, Gap, Graph, Node
from tfmp.shared.backend import Tensor

# The sign bit of a float.
_SIGN = np.int32(-(2**31))


def _sign_bit(node: Node, graph: Graph) -> Filling | None:
    """Keras asks for the sign bit of floats, to tell -0.0 from 0.0, before it looks for maxima."""
    import tensorflow as tf

    mask = [graph.static(name) for name in node.inputs]
    if not any(value is not None and value.size == 1 and value.item() == _SIGN for value in mask):
        return None
    position = 0 if mask[1] is not None else 1

    def masked(*operands: Tensor) -> Tensor:
        values = operands[position]
        return tf.where(values < 0, _SIGN, np.int32(0))

    return masked


def _bits(node: Node, graph: Graph) -> Filling | None:
    """And, or and not by shifts and exclusive or, which TFLite has; no sum leaves 32 bits."""
    import tensorflow as tf

    if graph.specs[node.outputs[0]].dtype != tf.int32:
        return None
    if node.op == "BitwiseAnd" and (sign := _sign_bit(node, graph)):
        return sign

    def both(one: Tensor, other: Tensor) -> Tensor:
        high = [tf.bitwise.right_shift(value, tf.ones_like(value)) for value in (one, other)]
        lowest = [value - 2 * upper for value, upper in zip((one, other), high, strict=True)]
        # a + b is twice their common bits and the others once.
        return high[0] + high[1] - tf.bitwise.bitwise_xor(*high) + lowest[0] * lowest[1]

    def either(one: Tensor, other: Tensor) -> Tensor:
        return tf.bitwise.bitwise_xor(one, other) + both(one, other)

    def inverted(value: Tensor) -> Tensor:
        return -1 - value

    functions: dict[str, Filling] = {"BitwiseAnd": both, "BitwiseOr": either, "Invert": inverted}
    return functions[node.op]


def _left_shift(node: Node, graph: Graph) -> Filling | None:
    """A product with a power of two."""
    import tensorflow as tf

    if graph.specs[node.outputs[0]].dtype != tf.int32:
        return None
    powers = np.left_shift(np.int32(1), np.arange(32, dtype=np.int32))

    def shifted(value: Tensor, count: Tensor) -> Tensor:
        return value * tf.gather(powers, tf.minimum(tf.maximum(count, 0), 31))

    return shifted


INTEGERS: dict[str, Gap] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "Invert"), _bits),
    "LeftShift": _left_shift,
}
