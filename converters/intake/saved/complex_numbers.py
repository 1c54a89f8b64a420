"""Arithmetic of complex numbers as arithmetic of their parts, which ONNX and TFLite have."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tfmp.converters.intake.saved.graph import Filling, Gap, Graph, Node
from tfmp.shared.backend import Tensor

Pair: TypeAlias = tuple[Tensor, Tensor]


def by_parts(node: Node, graph: Graph) -> Filling | None:
    """An operation that gives complex numbers, on their parts; a Fourier transform stays."""
    import tensorflow as tf

    if not gives_complex(node, graph):
        return None
    if node.op == "Const":
        value = graph.static(node.outputs[0])
        return None if value is None else lambda: tf.complex(value.real, value.imag)
    if node.op == "Cast":
        floats = graph.specs[node.inputs[0]].dtype == tf.float32
        return (lambda x: tf.complex(x, tf.zeros_like(x))) if floats else None
    if (rule := _ARITHMETIC.get(node.op)) is not None:
        return lambda *values: tf.complex(*rule(*map(parts, values)))
    if node.op in _PRODUCTS and len(node.inputs) > 1:
        return _matrix_product(node)
    return _moved(node) if node.op in (*_MOVES, *_PRODUCTS) else None


def gives_complex(node: Node, graph: Graph) -> bool:
    """Whether an operation gives complex numbers."""
    return any(graph.specs[name].dtype == "complex64" for name in node.outputs)


def _alike(node: Node, graph: Graph) -> Filling | None:
    """A pair whose parts get the shape that they have together."""
    import tensorflow as tf

    one, other = (graph.specs[name].shape for name in node.inputs)
    if one.rank is not None and one == other:
        return None
    return lambda a, b: tf.complex(a + tf.zeros_like(b), b + tf.zeros_like(a))


def absolute_values(z: Tensor) -> Tensor:
    """The lengths of complex numbers, from their parts."""
    import tensorflow as tf

    real, imaginary = parts(z)
    return tf.sqrt(tf.square(real) + tf.square(imaginary))


def _angle(node: Node, graph: Graph) -> Filling:
    """The angles of pairs."""
    import tensorflow as tf

    return lambda z: tf.atan2(*parts(z)[::-1])


def parts(z: Tensor) -> Pair:
    """The real and the imaginary parts of complex numbers, which most are made of."""
    import tensorflow as tf

    made = z.op.type == "Complex"
    return (z.op.inputs[0], z.op.inputs[1]) if made else (tf.math.real(z), tf.math.imag(z))


def _product(one: Pair, other: Pair) -> Pair:
    (a, b), (c, d) = one, other
    return a * c - b * d, a * d + b * c


def _quotient(one: Pair, other: Pair) -> Pair:
    c, d = other
    real, imaginary = _product(one, (c, -d))
    square = c * c + d * d
    return real / square, imaginary / square


def _exponential(z: Pair) -> Pair:
    import tensorflow as tf

    real, turn = z
    return tf.exp(real) * tf.cos(turn), tf.exp(real) * tf.sin(turn)


def _matrix_product(node: Node) -> Filling:
    import tensorflow as tf

    # Batches are transposed as adjoints, whose imaginary parts have the other sign.
    signs = [-1.0 if name in node.attributes and node.attributes[name].b else 1.0 for name in _ADJ]

    def product(one: Tensor, other: Tensor) -> Tensor:
        (a, b), (c, d) = parts(one), parts(other)
        b, d = b * signs[0], d * signs[1]
        pairs = ((a, c), (b, d), (a, d), (b, c))
        (ac,), (bd,), (ad,), (bc,) = (_on_floats(node, pair) for pair in pairs)
        return tf.complex(ac - bd, ad + bc)

    return product


def _moved(node: Node) -> Filling:
    """Both parts move alike; a pair has one more axis, which a slice or a sum would meet."""
    import tensorflow as tf

    def part(values: Sequence[Tensor], index: int) -> list[Tensor]:
        own = [parts(value)[index] if value.dtype.is_complex else value for value in values]
        return _on_floats(node, own)

    def moved(*values: Tensor) -> list[Tensor]:
        return [tf.complex(*pair) for pair in zip(part(values, 0), part(values, 1), strict=True)]

    return moved


def _on_floats(node: Node, values: Sequence[Tensor]) -> list[Tensor]:
    """Results of the complex operation itself on floats."""
    import tensorflow as tf

    attributes = {}
    for name, value in node.attributes.items():
        if not name.startswith("_"):
            attributes[name] = type(value)()
            attributes[name].CopyFrom(value)
            if value.type == tf.complex64.as_datatype_enum:
                attributes[name].type = tf.float32.as_datatype_enum
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(node.op, list(values), attrs=attributes).outputs


_ADJ = ("adj_x", "adj_y")
_PRODUCTS = ("BatchMatMulV2", "Einsum", "MatMul")

# Ops that do the same to both parts.
_MOVES = (
    "Add", "AddN", "AddV2", "BatchToSpaceND", "BroadcastTo", "ConcatV2", "Cumsum", "ExpandDims",
    "GatherNd", "GatherV2", "MatrixDiag", "Mean", "MirrorPad", "Neg", "Pack", "Pad", "Reshape",
    "ReverseSequence", "ReverseV2", "Roll", "SelectV2", "Slice", "SpaceToBatchND", "Split",
    "SplitV", "Squeeze", "StridedSlice", "Sub", "Sum", "Tile", "Transpose", "Unpack", "ZerosLike",
)  # fmt: skip

_ARITHMETIC: dict[str, Callable[..., Pair]] = {
    "Conj": lambda z: (z[0], -z[1]),
    "Exp": _exponential,
    "Mul": _product,
    "RealDiv": _quotient,
    "Square": lambda z: _product(z, z),
}

PAIRS: dict[str, Gap] = {"Angle": _angle, "Complex": _alike}
