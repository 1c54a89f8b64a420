"""Arithmetic of complex numbers as arithmetic of their parts, which ONNX and TFLite have."""

from collections.abc import Callable

from tfmp.converters.shared.frameworks import GraphDef, NodeDef

_FLOAT, _COMPLEX = 1, 8  # tensorflow.DataType


def by_parts(graph_def: GraphDef, folded: bool = False) -> bool:
    """Rewrites arithmetic, casts, constants, slices and moves of complex numbers, in place.

    Fourier transforms stay.

    Args:
        graph_def: a graph.
        folded: whether no pair is made only to be taken apart, as TFLite has no op that makes one.

    Returns:
        Whether anything was changed.
    """
    found = [
        (node, rule)
        for node in graph_def.node
        if (rule := _RULES.get(node.op)) is not None and _is_complex(node)
    ]
    if folded and (found or any(node.op == "Complex" for node in graph_def.node)):
        found += [(node, _FOLDED[node.op]) for node in graph_def.node if _folds(node)]
    for node, rule in found:
        rule(_Parts(graph_def, node))
    if folded and found:
        _fold(graph_def)
    return bool(found)


def _folds(node: NodeDef) -> bool:
    return node.op == "Complex" or (node.op == "Identity" and node.attr["T"].type == _COMPLEX)


def _fold(graph_def: GraphDef) -> None:
    """Lets whoever reads a part of a pair read what the pair was made of."""
    pairs = {node.name: list(node.input) for node in graph_def.node if node.op == "Complex"}
    for node in list(graph_def.node):
        pair = pairs.get(node.input[0].removesuffix(":0")) if node.input else None
        if pair and node.op in ("Angle", "Real", "Imag", "ComplexAbs"):
            values = [pair[node.op == "Imag"]]
            if node.op == "ComplexAbs":
                p = _Parts(graph_def, node)
                values = [p.op("AddV2", *(p.op("Mul", part, part) for part in pair))]
            elif node.op == "Angle":
                values = pair[::-1]
            node.op = {"Angle": "Atan2", "ComplexAbs": "Sqrt"}.get(node.op, "Identity")
            node.input[:] = values
            node.attr.clear()
            node.attr["T"].type = _FLOAT


def _is_complex(node: NodeDef) -> bool:
    from_floats = node.op != "Cast" or node.attr["SrcT"].type == _FLOAT
    return node.attr[_kind(node)].type == _COMPLEX and from_floats


def _kind(node: NodeDef) -> str:
    """The attribute with the dtype of the values."""
    return {
        "Cast": "DstT",
        "Const": "dtype",
        "GatherNd": "Tparams",
        "GatherV2": "Tparams",
    }.get(node.op, "T")


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

    def told(self, name: str) -> bool:
        """A Boolean attribute of the node; reading one that is missing would make it."""
        return name in self.node.attr and self.node.attr[name].b

    def copy(self, *values: str, at: int = 0) -> str:
        """The complex node itself, on floats in place of its inputs from one on."""
        own = self.node.input
        made = self._made(self.node.op, *own[:at], *values, *own[at + len(values) :])
        for name in self.node.attr:
            if name != "_output_shapes":
                made.attr[name].CopyFrom(self.node.attr[name])
        made.attr[_kind(self.node)].type = _FLOAT
        return made.name

    def finish_each(self, real: str, imaginary: str, count: int) -> None:
        """Makes pairs of the outputs of two nodes, and lets them be read in place of this node."""
        renamed = {}
        for index in range(count):
            parts = (f"{name}:{index}" if index else name for name in (real, imaginary))
            pair = self._made("Complex", *parts)
            pair.attr["T"].type, pair.attr["Tout"].type = _FLOAT, _COMPLEX
            renamed[f"{self.node.name}:{index}" if index else self.node.name] = pair.name
        for node in self._graph_def.node:
            node.input[:] = [renamed.get(name.removesuffix(":0"), name) for name in node.input]
        self._graph_def.node.remove(self.node)

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
    p.finish(*_multiplied(p, p.parts(0), p.parts(-1)))  # a square has one input


def _multiplied(p: _Parts, one: tuple[str, str], other: tuple[str, str]) -> tuple[str, str]:
    (a, b), (c, d) = one, other
    real = p.op("Sub", p.op("Mul", a, c), p.op("Mul", b, d))
    return real, p.op("AddV2", p.op("Mul", a, d), p.op("Mul", b, c))


def _quotient(p: _Parts) -> None:
    c, d = p.parts(1)
    size = p.op("AddV2", p.op("Mul", c, c), p.op("Mul", d, d))
    real, imaginary = _multiplied(p, p.parts(0), (c, p.op("Neg", d)))
    p.finish(p.op("RealDiv", real, size), p.op("RealDiv", imaginary, size))


def _moved(p: _Parts) -> None:
    """Both parts move alike; a pair has one more axis, which a slice or a sum would meet."""
    p.finish(*(p.copy(part) for part in p.parts(0)))


def _sum(p: _Parts) -> None:
    (a, b), (c, d) = p.parts(0), p.parts(1)
    kind = "Sub" if p.node.op == "Sub" else "AddV2"
    p.finish(p.op(kind, a, c), p.op(kind, b, d))


def _exponential(p: _Parts) -> None:
    real, angle = p.parts(0)
    size = p.op("Exp", real)
    p.finish(p.op("Mul", size, p.op("Cos", angle)), p.op("Mul", size, p.op("Sin", angle)))


def _alike(p: _Parts) -> None:
    """Both parts get the shape that they have together."""
    a, b = p.node.input
    zeros = p.op("ZerosLike", a), p.op("ZerosLike", b)
    p.finish(p.op("AddV2", a, zeros[1]), p.op("AddV2", b, zeros[0]))


def _cast(p: _Parts) -> None:
    value = p.node.input[0]
    p.finish(value, p.op("ZerosLike", value))


def _constant(p: _Parts) -> None:
    import tensorflow as tf

    values = tf.make_ndarray(p.node.attr["value"].tensor)
    p.finish(p.constant(values.real), p.constant(values.imag))


def _joined(p: _Parts) -> None:
    """A list of tensors: their real parts are joined, and their imaginary ones."""
    pairs = [p.parts(index) for index in range(p.node.attr["N"].i)]
    p.finish(*(p.copy(*parts) for parts in zip(*pairs, strict=True)))


def _chosen(p: _Parts) -> None:
    pairs = p.parts(1), p.parts(2)
    p.finish(*(p.copy(*parts, at=1) for parts in zip(*pairs, strict=True)))


def _split(p: _Parts) -> None:
    at = int(p.node.op == "Split")
    count = p.node.attr["num" if p.node.op == "Unpack" else "num_split"].i
    real, imaginary = (p.copy(part, at=at) for part in p.parts(at))
    p.finish_each(real, imaginary, count)


def _matrix_product(p: _Parts) -> None:
    if len(p.node.input) == 1:  # an einsum that only moves and adds
        _moved(p)
        return
    (a, b), (c, d) = p.parts(0), p.parts(1)
    # Batches are transposed as adjoints, whose imaginary parts have the other sign.
    b = p.op("Neg", b) if p.told("adj_x") else b
    d = p.op("Neg", d) if p.told("adj_y") else d
    real = p.op("Sub", p.copy(a, c), p.copy(b, d))
    p.finish(real, p.op("AddV2", p.copy(a, d), p.copy(b, c)))


def _conjugate(p: _Parts) -> None:
    real, imaginary = p.parts(0)
    p.finish(real, p.op("Neg", imaginary))


def _root(p: _Parts) -> None:
    """The root with a real part that is not negative; its larger part is found first."""
    real, imaginary = p.parts(0)
    size = p.op("Sqrt", p.op("AddV2", p.op("Mul", real, real), p.op("Mul", imaginary, imaginary)))
    half = p.constant(0.5)
    larger = p.op("Sqrt", p.op("Mul", p.op("AddV2", size, p.op("Abs", real)), half))
    smaller = p.op("DivNoNan", p.op("Mul", imaginary, half), larger)
    zero = p.constant(0.0)
    right, above = p.op("GreaterEqual", real, zero), p.op("GreaterEqual", imaginary, zero)
    signed = p.op("SelectV2", above, larger, p.op("Neg", larger))
    p.finish(
        p.op("SelectV2", right, larger, p.op("Abs", smaller)),
        p.op("SelectV2", right, smaller, signed),
    )


# Ops whose first input alone is complex, and that do the same to both parts.
_MOVES = (
    "BatchToSpaceND", "BroadcastTo", "Cumsum", "ExpandDims", "GatherNd", "GatherV2", "MatrixDiag",
    "Mean", "MirrorPad", "Neg", "Pad", "Reshape", "ReverseSequence", "ReverseV2", "Roll", "Slice",
    "SpaceToBatchND", "Squeeze", "StridedSlice", "Sum", "Tile", "Transpose", "ZerosLike",
)  # fmt: skip

_RULES: dict[str, Callable[[_Parts], None]] = {
    "Add": _sum,
    "AddV2": _sum,
    **dict.fromkeys(("AddN", "ConcatV2", "Pack"), _joined),
    **dict.fromkeys(("BatchMatMulV2", "Einsum", "MatMul"), _matrix_product),
    "Cast": _cast,
    "Conj": _conjugate,
    "Const": _constant,
    "Exp": _exponential,
    "Mul": _product,
    "RealDiv": _quotient,
    "SelectV2": _chosen,
    **dict.fromkeys(("Split", "SplitV", "Unpack"), _split),
    "Sqrt": _root,
    "Square": _product,
    "Sub": _sum,
    **dict.fromkeys(_MOVES, _moved),
}

_FOLDED: dict[str, Callable[[_Parts], None]] = {"Complex": _alike, "Identity": _moved}
