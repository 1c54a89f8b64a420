"""Where 16 bits break models: beside an offset, at outputs, at raw inputs, at added constants.

An output in degrees or ppm is rounded beside its offset, and a raw input before anything centres
it. What lies behind the last product of an output, before the first one of an input, and between
an added constant and the next product is elementwise, so FP32 costs little there, as it does for
sines of positions. Products stay FP16; the bias of a last one is added in FP32 where it is an
offset.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.onnx.graph import (
    EXACT,
    FP16,
    HALVES,
    PRODUCTS,
    array_of,
    bodies_of,
    depth_of,
    is_float,
    light_proto,
    new_constant,
    nodes_of,
    open_once,
    operand,
    rank_of,
)
from tfmp.converters.shared.tensors import Batch

_ENDS = PRODUCTS | {"Einsum"}
_HEAVY = _ENDS | {"Attention", "DFT", "DeformConv", "GRU", "LSTM", "RNN", "STFT"}
# A Gather from more elements reads a table of weights; a loop with fewer weights is elementwise.
TABLE = 4096

# An added constant is an offset where the spacing beside it is this share of what varies: 32 times
# as large in FP16, four times in BF16. Without data, what varies is taken for 1, and what is over
# the second number for a mask.
_SPACING, _MASK = 2.0**-5, 3e4
# With data, smaller constants are not looked at unless they dominate their product.
_LEAST_CONSTANT = 1.0
# A channel that varies by a smaller share of what all vary by says little.
_SILENT = 0.1
# A bias is an offset if it is this many times the norm of its column of weights.
_DOMINANT = 4.0
# A column of weights that loses more than this vanishes: 2**-8 of itself in FP16.
_MOST_SPACINGS_LOST = 4

# Of the elements that all nodes move, the share that both ends may move in FP32: what memory limits
# takes longer by this share at most.
_MOST_MOVED = 0.03
# Elements for one sample that they may move in any case: for a batch of 32 on an H100, 2 MB or
# half a microsecond more.
_SMALL = 3e4
# A product with a larger share of all multiplications stays FP16.
_MOST_MULTIPLICATIONS = 0.05

BEHIND = "behind the last product of an output"
BEFORE = "before the first product of an input"
BESIDE = "beside an added constant"
ANGLE = "for the angle of a sine"
VANISHES = "weights of the last product lose their digits in FP16"
REASONS = (BEHIND, BEFORE, BESIDE, ANGLE)


def edges_of(
    model: ir.Model, data: Batch | None = None, low: ir.DataType = FP16
) -> dict[ir.Node, str]:
    """The nodes at the edges of a model that are to compute in FP32, each with the reason.

    Args:
        model: a float32 model, prepared by `rewriter.prepare`, after `split_biases`.
        data: inputs of a call by name. They tell open axes, which count as one element without
            them, and by how much a value varies beside a constant that is added to it.
        low: the type of 16 bits that all other nodes compute in.
    """
    shapes = {name: array.shape for name, array in (data or {}).items()}
    graph, sizes = model.graph, _Sizes(model, shapes)
    last, tail = _tail(graph)
    found = {node: VANISHES for node in last if _vanishes(node, low) and sizes.is_light(node)}
    biases = filter(None, map(_added_bias, last))
    beside = _offsets(model, data, low) if data else _large_constants(nodes_of(graph), low)
    offsets = _up_to_products(graph, {*beside, *biases})
    before, moved = _before_products(graph), 0.0
    for part, reason in ((tail, BEHIND), (_front(before, graph), BEFORE)):
        if not part.isdisjoint(offsets) or sizes.may_move(moved + sizes.moved(part)):
            moved += sizes.moved(part - found.keys())
            found |= dict.fromkeys(part - found.keys(), reason)
    for part, reason in ((offsets, BESIDE), (_angles(before), ANGLE)):
        found |= dict.fromkeys(part - found.keys(), reason)
    return {node: reason for node, reason in found.items() if node.op_type not in EXACT}


def split_biases(model: ir.Model) -> None:
    """Makes an Add of the bias of each last product, where the bias is an offset."""
    for node in _tail(model.graph)[0]:
        bias = _constant(node.inputs[2]) if len(node.inputs) > 2 else None
        if node.op_type in ("Conv", "ConvTranspose", "Gemm") and _dominates(bias, node):
            _split(model, node, np.asarray(bias))


def _constant(value: ir.Value | None) -> np.ndarray | None:
    if value is None or value.is_graph_input() or not is_float(value):
        return None
    return array_of(value)


def _ends_a_region(node: ir.Node) -> bool:
    """Products, recurrent ops, tables of weights, and loops whose bodies hold many weights."""
    if node.op_type in _HEAVY:
        return True
    if node.op_type == "Gather":
        table = _constant(node.inputs[0])
        return table is not None and table.size > TABLE
    inner = [one for _, body in bodies_of(node) for one in nodes_of(body)]
    weights = [_constant(one.inputs[1]) for one in inner if one.op_type in _ENDS]
    held = sum(TABLE if weight is None else weight.size for weight in weights)
    return held > TABLE or any(one.op_type in _HEAVY - _ENDS for one in inner)


def _reads(node: ir.Node) -> list[ir.Value]:
    """What a node reads, in its bodies too."""
    inner = [value for _, body in bodies_of(node) for one in nodes_of(body) for value in one.inputs]
    return [value for value in (*node.inputs, *inner) if value is not None]


def _with_bodies(nodes: Iterable[ir.Node]) -> set[ir.Node]:
    """The nodes, and those in the bodies of small ones."""
    outer = set(nodes)
    small = (node for node in outer if not _ends_a_region(node))
    return outer | {one for node in small for _, body in bodies_of(node) for one in nodes_of(body)}


def _tail(
    graph: ir.Graph, outputs: Iterable[ir.Value] | None = None
) -> tuple[list[ir.Node], set[ir.Node]]:
    """The last products of outputs, all of them by default, and the nodes behind them."""
    last: dict[ir.Node, None] = {}
    behind: set[ir.Node] = set()
    nodes = list(graph)
    for output in graph.outputs if outputs is None else outputs:
        reached, blocked = {output}, set[ir.Value]()  # those that it reads; through a product
        for node in reversed(nodes):
            used = [value for value in node.outputs if value in reached]
            if not used:
                continue
            values = _reads(node)
            reached.update(values)
            ends = _ends_a_region(node)
            if not blocked.isdisjoint(used):
                blocked.update(values)
            elif ends:
                blocked.update(values)
                last |= {node: None} if node.op_type in _ENDS else {}
                for body, given in bodies_giving(node, used):
                    inner_last, inner_behind = _tail(body, given)
                    last |= dict.fromkeys(inner_last)
                    behind |= inner_behind | ({node} if has_type_of(node, used) else set())
            else:
                behind.add(node)
    return list(last), _with_bodies(behind)


def bodies_giving(
    node: ir.Node, results: Iterable[ir.Value]
) -> Iterator[tuple[ir.Graph, list[ir.Value]]]:
    """The bodies of an If, Loop or Scan, and their outputs that become these results."""
    places = [list(node.outputs).index(value) for value in results]
    first = 1 if node.op_type == "Loop" else 0
    for _, body in bodies_of(node):
        yield body, [body.outputs[first + place] for place in places]


def has_type_of(node: ir.Node, results: Iterable[ir.Value]) -> bool:
    """Whether the precision of a node with bodies is that of any of these results of it."""
    states = len(node.outputs)
    if node.op_type == "Loop":
        states = len(node.inputs) - 2
    elif node.op_type == "Scan":
        states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    return any(list(node.outputs).index(value) < states for value in results)


def _before_products(graph: ir.Graph, past: Iterable[ir.Value] = ()) -> list[ir.Node]:
    """The nodes, in order, that read nothing that a product has made; in large bodies, too.

    Args:
        graph: a model's graph, or a body in it.
        past: values of outer graphs that a product has made.
    """
    made = {*past}
    found = []
    for node in graph:
        ends = _ends_a_region(node)
        if not ends and made.isdisjoint(_reads(node)):
            found.append(node)
            continue
        for _, body in bodies_of(node) if ends else ():
            # States are what a product made, and slices of a Scan have the type of its states.
            found += _before_products(body, {*made, *filter(is_float, body.inputs)})
        made.update(node.outputs)
    return found


def _front(nodes: Iterable[ir.Node], graph: ir.Graph) -> set[ir.Node]:
    """Those of the nodes before products that read a float input, or what is made of one."""
    raw = {value for value in graph.inputs if is_float(value)}
    front: set[ir.Node] = set()
    for node in nodes:
        if not raw.isdisjoint(_reads(node)):
            raw.update(node.outputs)
            front.add(node)
    return _with_bodies(front)


def _angles(nodes: Sequence[ir.Node]) -> set[ir.Node]:
    """Those of the nodes before products that are sines, or make their angles.

    They turn positions and times, integers too, into waves; an angle that a product has made is
    FP16 already.
    """
    found: set[ir.Node] = set()
    for node in reversed(nodes):
        leads = any(user in found for value in node.outputs for user in value.consumers())
        if leads or node.op_type in ("Sin", "Cos"):
            found.add(node)
    return found


def _added(nodes: Iterable[ir.Node]) -> Iterator[tuple[ir.Node, np.ndarray]]:
    """Additions of a constant, with the constant."""
    for node in nodes:
        added = map(_constant, node.inputs) if node.op_type in ("Add", "Sub") else ()
        yield from ((node, value) for value in added if value is not None and value.size)


def _large_constants(nodes: Iterable[ir.Node], low: ir.DataType) -> set[ir.Node]:
    least = _SPACING / HALVES[low].eps
    return {node for node, added in _added(nodes) if least <= np.abs(added).max() < _MASK}


def _offsets(model: ir.Model, data: Batch, low: ir.DataType) -> set[ir.Node]:
    """The additions of a constant that is an offset beside what varies on the data.

    Those in bodies, whose values are no outputs, are told by the constant alone.
    """
    graph = model.graph
    inner = [node for node in nodes_of(graph) if node.graph is not graph]
    asked = {
        node: added
        for node, added in _added(graph)
        if np.abs(added).max() >= _LEAST_CONSTANT or _dominates(added, node.inputs[0].producer())
    }
    names = [str(node.outputs[0].name) for node in asked]
    try:
        found = _inner_values(model, names, data) if names else {}
    except Exception:  # ONNX Runtime's exceptions share no base class
        return _large_constants(nodes_of(graph), low)
    least = _SPACING / HALVES[low].eps
    pairs = zip(asked.items(), names, strict=True)
    seen = {node for (node, added), name in pairs if _over_spread(added, found[name]) >= least}
    return seen | _large_constants(inner, low)


def _inner_values(model: ir.Model, names: Sequence[str], data: Batch) -> Batch:
    copy = model.clone()
    given = {value.name for value in copy.graph.outputs}
    made = {value.name: value for node in copy.graph for value in node.outputs}
    copy.graph.outputs.extend(made[name] for name in names if name not in given)
    fed = {
        str(value.name): data[str(value.name)].astype(value.dtype.numpy())
        for value in model.graph.inputs
        if value.dtype is not None
    }
    return dict(zip(names, open_once(copy)(names, fed), strict=True))


def _over_spread(added: np.ndarray, result: np.ndarray) -> float:
    """The largest constant of a channel over what the result varies by there.

    The axis of channels is the one that the constant varies along, or the last of several. A
    constant that is zero or one number, as masks are, is no offset.
    """
    shape = (1,) * (result.ndim - added.ndim) + added.shape
    along = [axis for axis, size in enumerate(shape) if size > 1]
    if len(along) > 1 and len(np.unique(added)) == 2 and not added.all():
        return 0.0
    axes = tuple(axis for axis in range(result.ndim) if axis not in along[-1:])
    spread = np.std(result, axis=axes, dtype=np.float64)
    typical = float(np.sqrt(np.mean(spread**2)))
    if not np.isfinite(typical) or not typical:
        return 0.0
    mean = np.abs(np.mean(np.broadcast_to(added.reshape(shape), result.shape), axis=axes))
    told = spread >= _SILENT * typical
    return float(np.max(mean[told] / spread[told], initial=0.0))


def _up_to_products(graph: ir.Graph, found: set[ir.Node]) -> set[ir.Node]:
    """These nodes, and those behind them up to the next product."""
    for node in nodes_of(graph):
        follows = any(value.producer() in found for value in _reads(node))
        if follows and not _ends_a_region(node):
            found.add(node)
    return _with_bodies(found)


def _columns(node: ir.Node) -> np.ndarray | None:
    """A product's weights, a row for each column of its result."""
    if node.op_type not in PRODUCTS:
        return None
    weights = _constant(node.inputs[1])
    if weights is None or weights.ndim < 2:
        return None
    turned = node.op_type == "Gemm" and node.attributes.get_int("transB", 0)
    first = node.op_type == "Conv" or turned
    axis = 0 if first else 1 if node.op_type == "ConvTranspose" else weights.ndim - 1
    return np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)


def _vanishes(node: ir.Node, low: ir.DataType) -> bool:
    """Whether a column of a product's weights loses its digits in 16 bits."""
    columns = _columns(node)
    if columns is None or float(np.abs(columns).max(initial=0)) >= HALVES[low].overflow_threshold:
        return False  # what overflows has a rule of its own
    lost = np.linalg.norm(columns - columns.astype(low.numpy()).astype(np.float32), axis=1)
    most = _MOST_SPACINGS_LOST * HALVES[low].eps
    return bool((lost > most * np.linalg.norm(columns, axis=1)).any())


def _dominates(bias: np.ndarray | None, node: ir.Node | None) -> bool:
    columns = _columns(node) if node is not None else None
    if bias is None or columns is None or bias.size not in (1, len(columns)):
        return False
    return bool((np.abs(bias.ravel()) > _DOMINANT * np.linalg.norm(columns, axis=1)).any())


def _added_bias(node: ir.Node) -> ir.Node | None:
    """The Add behind a product whose constant is an offset."""
    users = node.outputs[0].consumers()
    if len(users) != 1 or users[0].op_type != "Add":
        return None
    constants = (_constant(value) for value in users[0].inputs)
    return users[0] if any(_dominates(value, node) for value in constants) else None


def _split(model: ir.Model, node: ir.Node, bias: np.ndarray) -> None:
    graph, result = node.graph, node.outputs[0]
    assert isinstance(graph, ir.Graph)
    if node.op_type == "Gemm":
        bias = bias * np.float32(node.attributes.get_float("beta", 1.0))
    else:
        bias = bias.reshape(-1, *[1] * (rank_of(operand(node, 1)) - 2))
    add = ir.Node("", "Add", [result, new_constant(model.graph, f"{result.name}_offset", bias)])
    add.name = f"{node.name or result.name}_offset"
    add.metadata_props.update(node.metadata_props)
    biased = add.outputs[0]
    biased.name, biased.type, biased.shape = f"{result.name}_biased", result.type, result.shape
    users = [(user, index) for user, index in result.uses() if user is not add]
    graph.insert_after(node, add)
    node.resize_inputs(2)
    for user, index in users:
        user.replace_input_with(index, biased)
    for index, value in enumerate(list(graph.outputs)):
        if value is result:
            graph.outputs[index] = biased
            result.name, biased.name = biased.name, result.name


class _Sizes:
    """Elements of values for one sample, and what follows from them."""

    def __init__(self, model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> None:
        self._model, self._shapes, self._nodes = model, shapes, nodes_of(model.graph)
        inputs = [(value, value.shape) for value in model.graph.inputs if value.shape]
        self._known = all(
            isinstance(size, int) or axis < len(shapes.get(str(value.name), ()))
            for value, shape in inputs
            for axis, size in enumerate(shape[1:], 1)
        )
        # The sizes of the axis of samples that have names.
        self._samples = {shape[0] for _, shape in inputs if getattr(shape[0], "value", None)}

    def moved(self, nodes: Collection[ir.Node]) -> float:
        """Elements of activations that these nodes read and write."""
        return float(sum(map(self._elements, _activations(nodes))))

    def may_move(self, elements: float) -> bool:
        """Whether both ends of the model may move so many elements."""
        if elements <= _SMALL and self._known:
            return True
        told = (self._told(value) or 0 for value in _activations(self._nodes))
        enough = elements <= _MOST_MOVED * sum(told)  # most models need no inference for this
        return enough or elements <= _MOST_MOVED * self.moved(self._nodes)

    def is_light(self, product: ir.Node) -> bool:
        """Whether a product has a small share of all multiplications for one sample."""
        most = _MOST_MULTIPLICATIONS * sum(map(self._multiplications, self._nodes))
        return self._multiplications(product) <= most

    def _multiplications(self, node: ir.Node) -> float:
        return depth_of(node) * self._elements(node.outputs[0]) if node.op_type in _ENDS else 0.0

    def _elements(self, value: ir.Value) -> int:
        told = self._told(value)
        return self._inferred.get(str(value.name), 1) if told is None else told

    def _told(self, value: ir.Value) -> int | None:
        """Elements of a value whose shape tells them."""
        shape = (None,) if value.shape is None else value.shape
        sizes = [1 if size in self._samples else size for size in shape]
        known = [size for size in sizes if isinstance(size, int)]
        return math.prod(known) if known == sizes else None

    @cached_property
    def _inferred(self) -> dict[str, int]:
        """Elements of the values of the graph, not of its bodies, by their names."""
        proto = light_proto(self._model)
        for value in proto.graph.input:
            given = self._shapes.get(value.name, ())
            for axis, size in enumerate(value.type.tensor_type.shape.dim):
                if size.dim_value <= 0:
                    size.dim_value = given[axis] if axis and axis < len(given) else 1
        del proto.graph.value_info[:]
        for value in proto.graph.output:
            value.type.tensor_type.ClearField("shape")
        graph = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
        return {
            value.name: math.prod(size.dim_value or 1 for size in value.type.tensor_type.shape.dim)
            for value in (*graph.value_info, *graph.input, *graph.output)
        }


def _activations(nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    values = (value for node in nodes for value in (*node.inputs, *node.outputs))
    return (value for value in values if is_float(value) and value.const_value is None)
