"""Arithmetic of complex numbers as arithmetic of their parts, which ONNX has."""

from collections.abc import Callable

from tfmp.converters.shared.frameworks import GraphDef, NodeDef

_FLOAT, _COMPLEX = 1, 8  # tensorflow.DataType


def by_parts(graph_def: GraphDef) -> None:
    """Rewrites products, sums, exponentials, casts and constants of complex numbers, in place.

    Fourier transforms, and ops that only move complex numbers, stay.
    """
    for node in list(graph_def.node):
        rule = _RULES.get(node.op)
        if rule is not None and _is_complex(node):
            rule(_Parts(graph_def, node))


def _is_complex(node: NodeDef) -> bool:
    kind = {"Cast": "DstT", "Const": "dtype"}.get(node.op, "T")
    from_floats = node.op != "Cast" or node.attr["SrcT"].type == _FLOAT
    return node.attr[kind].type == _COMPLEX and from_floats


class _Parts:
    """Makes nodes beside a complex node, and makes that node the pair of two of them."""

    def __init__(self, graph_def: GraphDef, node: NodeDef) -> None:
        self.node = node
        self._graph_def = graph_def
        self._count = 0

    def op(self, kind: str, *inputs: str) -> str:
        """A node on floats; gives its output."""
        made = self._made(kind, *inputs)
        made.attr["T"].type = _FLOAT
        return made.name

    def parts(self, index: int) -> tuple[str, str]:
        """Real and imaginary part of an input."""
        found = []
        for kind in ("Real", "Imag"):
            made = self._made(kind, self.node.input[index])
            made.attr["T"].type, made.attr["Tout"].type = _COMPLEX, _FLOAT
            found.append(made.name)
        return found[0], found[1]

    def constant(self, values: object) -> str:
        """A float constant."""
        import tensorflow as tf

        made = self._made("Const")
        made.attr["dtype"].type = _FLOAT
        made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values, tf.float32))
        return made.name

    def finish(self, real: str, imaginary: str) -> None:
        """Makes the node a pair."""
        self.node.op = "Complex"
        del self.node.input[:]
        self.node.input.extend([real, imaginary])
        self.node.attr.clear()
        self.node.attr["T"].type, self.node.attr["Tout"].type = _FLOAT, _COMPLEX

    def _made(self, kind: str, *inputs: str) -> NodeDef:
        self._count += 1
        made = self._graph_def.node.add(name=f"{self.node.name}/part_{self._count}", op=kind)
        made.input.extend(inputs)
        return made


def _product(p: _Parts) -> None:
    (a, b), (c, d) = p.parts(0), p.parts(1)
    real = p.op("Sub", p.op("Mul", a, c), p.op("Mul", b, d))
    p.finish(real, p.op("AddV2", p.op("Mul", a, d), p.op("Mul", b, c)))


def _sum(p: _Parts) -> None:
    (a, b), (c, d) = p.parts(0), p.parts(1)
    kind = "Sub" if p.node.op == "Sub" else "AddV2"
    p.finish(p.op(kind, a, c), p.op(kind, b, d))


def _exponential(p: _Parts) -> None:
    real, angle = p.parts(0)
    size = p.op("Exp", real)
    p.finish(p.op("Mul", size, p.op("Cos", angle)), p.op("Mul", size, p.op("Sin", angle)))


def _cast(p: _Parts) -> None:
    value = p.node.input[0]
    p.finish(value, p.op("ZerosLike", value))


def _constant(p: _Parts) -> None:
    import tensorflow as tf

    values = tf.make_ndarray(p.node.attr["value"].tensor)
    p.finish(p.constant(values.real), p.constant(values.imag))


_RULES: dict[str, Callable[[_Parts], None]] = {
    "Add": _sum,
    "AddV2": _sum,
    "Cast": _cast,
    "Const": _constant,
    "Exp": _exponential,
    "Mul": _product,
    "Sub": _sum,
}
