"""Operations on whole numbers that TFLite lacks: their bits."""

from tfmp.converters.intake import Chain, Filling, Gap, Graph, Node, sign_bit
from tfmp.shared.backend import Tensor


def _bits(node: Node, graph: Graph) -> Filling | Chain | None:
    """And, or and not by shifts and exclusive or, which TFLite has; no sum leaves 32 bits."""
    import tensorflow as tf

    if graph.specs[node.outputs[0]].dtype != tf.int32:
        return None
    if node.op == "BitwiseAnd" and (sign := sign_bit(node, graph)):
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


INTEGERS: dict[str, Gap] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "Invert"), _bits),
}
