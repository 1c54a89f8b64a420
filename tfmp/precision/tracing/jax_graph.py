"""Traces a function on JAX: a jaxpr, which is a list of equations."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import keras
import numpy as np
from keras import tree

from tfmp.precision.tracing.exponents import may_overflow
from tfmp.precision.tracing.hazards import (
    FACTORS,
    PRODUCT,
    PROMOTION,
    SUM,
    Fact,
    of_argument,
    of_constant,
    of_result,
    of_tanh,
    of_value,
)
from tfmp.precision.tracing.ranges import power_of_all, value_of
from tfmp.precision.tracing.traced_graph import (
    Graph,
    Inputs,
    Origin,
    Traceable,
    over_tensors,
    promotes,
)
from tfmp.precision.tracing.values import FROM_INTEGERS, Value
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.packages import user_line

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn, Var

_PREFIX = "tfmp/"
_BEGIN = "tfmp-begin/"
_REDUCTIONS = {
    "reduce_sum": SUM,
    "cumsum": SUM,
    "scatter-add": SUM,
    "reduce_prod": FACTORS,
    "cumprod": FACTORS,
}
# Their names are those of other operations on TensorFlow.
_KINDS = {"max": "max_of_two", "min": "min_of_two", "reduce_min": "min_over_axes"}
# Equations whose inner jaxpr runs exactly once, on their own inputs.
_CALLS = (
    "pjit",
    "jit",
    "closed_call",
    "checkpoint",
    "remat",
    "remat2",
    "custom_jvp_call",
    "custom_vjp_call",
)


class JaxMarks:
    """The `Marks` of a jaxpr: equations in it, which carry the ids of layers as their names."""

    def add(self, layer: keras.Operation | keras.Variable, outputs: TensorTree) -> TensorTree:
        """Marks a layer's results."""
        return over_tensors(lambda tensor: _named(tensor, layer), outputs)

    def begin(self, layer: keras.Operation, arguments: TensorTree) -> tuple[TensorTree, int]:
        """Marks the arguments of a layer's own code."""
        marked: dict[int, Tensor] = {}  # x * x has to stay a square

        def mark(tensor: Tensor) -> Tensor:
            return marked.setdefault(id(tensor), _named(tensor, layer, _BEGIN))

        return over_tensors(mark, arguments), 0

    def end(self, layer: keras.Operation, begin: int) -> None:
        """The marks of its results end a layer's code."""


def _named(
    tensor: Tensor, layer: keras.Operation | keras.Variable, prefix: str = _PREFIX
) -> Tensor:
    from jax.ad_checkpoint import checkpoint_name

    marked = checkpoint_name(tensor, f"{prefix}{id(layer)}")
    if hasattr(tensor, "_keras_mask"):
        marked._keras_mask = tensor._keras_mask
    return marked


def trace_jax(
    function: Traceable, inputs: Inputs, variables: Iterable[keras.Variable] = ()
) -> Graph:
    """A function's jaxpr; a tensor that a layer returned goes through an equation with a name.

    Args:
        function: called once, with traced tensors; it marks some of them.
        inputs: the shapes and dtypes of these tensors.
        variables: those of the model; JAX takes their values for constants.
    """
    import jax

    structure = (inputs.keywords, inputs.positional)
    places = tree.flatten(structure)  # None where a batch has nothing

    # Keras keeps shapes in containers of its own, which JAX does not look into.
    def flat_function(*leaves: Tensor) -> list[Tensor]:
        given = iter(leaves)
        filled = [None if place is None else next(given) for place in places]
        outputs = function(*tree.pack_sequence_as(structure, filled))
        return [output for output in tree.flatten(outputs) if keras.ops.is_tensor(output)]

    # One symbol for every unknown size, as Keras has it for its own shape inference; at least 2,
    # so that no axis of it broadcasts by accident.
    (symbol,) = jax.export.symbolic_shape("(n)", constraints=["n >= 2"])
    size = symbol if inputs.size is None else inputs.size
    specs = [
        jax.ShapeDtypeStruct(tuple(size if n is None else n for n in spec.shape), spec.dtype)
        for spec in places
        if spec is not None
    ]
    closed = jax.make_jaxpr(flat_function)(*specs)
    weights = {id(variable.value) for variable in variables}
    constants = {
        id(variable): value
        for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True)
        if id(value) not in weights
    }
    return _Graph(closed.jaxpr, constants)


# Where a jaxpr is called from, and in it a variable: JAX shares the jaxpr of a function that is
# called twice.
Place: TypeAlias = tuple[Hashable, ...]


class _Graph:
    def __init__(self, jaxpr: "Jaxpr", constants: dict[int, Tensor]) -> None:
        self.outputs: list[Hashable] = _within((), jaxpr.outvars)
        self.facts = _Facts(jaxpr, constants).found
        self._origins: dict[Hashable, Origin] = {}
        self._alive = jaxpr  # its variables are known by their ids
        self._read(jaxpr, ())

    def origin(self, tensor: Hashable) -> Origin:
        return self._origins.get(tensor, Origin(None, ()))

    def _read(self, jaxpr: "Jaxpr", caller: Place) -> None:
        for equation in jaxpr.eqns:
            inner = _inner_jaxprs(equation)
            results = _within(caller, equation.outvars)
            sources = tuple(_within(caller, equation.invars))
            if _layer_of(equation) is not None:
                self._connect(results, Origin(_layer_of(equation), sources))
            elif _layer_of(equation, _BEGIN) is not None:
                self._connect(results, Origin(None, sources, is_operation=False))
            elif equation.primitive.name in _CALLS and len(inner) == 1:
                call = (*caller, id(equation))
                self._read(inner[0], call)
                self._hand_on(sources, _within(call, inner[0].invars))
                self._hand_on(_within(call, inner[0].outvars), results)
            else:
                inside = frozenset().union(*map(_layers_in, inner))
                self._connect(results, Origin(None, sources, inside=inside))

    def _hand_on(self, sources: Iterable[Hashable], results: Iterable[Hashable]) -> None:
        for source, result in zip(sources, results, strict=False):
            self._connect([result], Origin(None, (source,), is_operation=False))

    def _connect(self, results: Iterable[Hashable], origin: Origin) -> None:
        self._origins.update(dict.fromkeys(results, origin))


def _within(caller: Place, variables: "Iterable[object]") -> list[Hashable]:
    return [(*caller, id(variable)) for variable in variables]


def _layer_of(equation: "JaxprEqn", prefix: str = _PREFIX) -> int | None:
    name = str(equation.params.get("name", "")) if equation.primitive.name == "name" else ""
    return int(name.removeprefix(prefix)) if name.startswith(prefix) else None


class _Facts:
    """Reads a jaxpr in the order in which it was traced: layers begin and end in it."""

    def __init__(self, jaxpr: "Jaxpr", constants: dict[int, Tensor]) -> None:
        self.found: list[Fact] = []
        self._inside: list[int] = []
        weights = [one for one in jaxpr.constvars if id(one) not in constants]
        self._values = {id(one): Value("weight") for one in weights}
        self._read(jaxpr, constants)

    def _read(self, jaxpr: "Jaxpr", constants: dict[int, Tensor]) -> None:
        reductions: dict[int, Fact | None] = {}
        for equation in jaxpr.eqns:
            self._note(equation, constants)
            begun, ended = _layer_of(equation, _BEGIN), _layer_of(equation)
            if begun is not None:
                self.found += of_argument(begun, self._known(equation.invars[0], constants))
            if begun is not None and begun not in self._inside[-1:]:
                self._inside.append(begun)
            elif ended is not None and ended in self._inside:
                del self._inside[self._inside.index(ended) :]
                self.found += of_result(ended, self._known(equation.invars[0], constants))
            elif self._inside and begun is None:
                self._look(equation, constants, reductions)
            for inner in _inner_jaxprs(equation):
                passed = _passed(equation, inner)
                known = {id(own): _value(outer, constants) for own, outer in passed}
                for own, outer in passed:
                    self._values[id(own)] = self._known(outer, constants)
                self._read(inner, {key: value for key, value in known.items() if value is not None})
                if equation.primitive.name in _CALLS:
                    for outer, own in zip(equation.outvars, inner.outvars, strict=False):
                        self._values[id(outer)] = self._known(own, constants)

    def _known(self, argument: object, constants: dict[int, Tensor]) -> Value:
        value = _value(argument, constants)
        if value is not None:
            return value_of("const", constant=np.asarray(value))
        return self._values.setdefault(id(argument), Value())

    def _note(self, equation: "JaxprEqn", constants: dict[int, Tensor]) -> None:
        """Notes how a value came about, for the exponentials of it."""
        name = equation.primitive.name
        numbers = equation.params["shape"] if name == "iota" else ()
        size = numbers[equation.params["dimension"]] if numbers else None
        made = value_of(
            FROM_INTEGERS if _converts_integers(equation) else _KINDS.get(name, name),
            tuple(self._known(argument, constants) for argument in equation.invars),
            constant=np.arange(size) if isinstance(size, int) else None,
            power=self._exponent(equation, constants),
            terms=_terms(equation),
            layer=self._inside[-1] if self._inside else None,
            dtype=_dtype(equation),
        )
        for variable in equation.outvars:  # the parts of a split are not one and the same value
            self._values[id(variable)] = replace(made)

    def _exponent(self, equation: "JaxprEqn", constants: dict[int, Tensor]) -> float | None:
        if equation.primitive.name == "pow":
            return power_of_all(self._known(equation.invars[1], constants).constant)
        return float(equation.params["y"]) if equation.primitive.name == "integer_pow" else None

    def _look(
        self, equation: "JaxprEqn", constants: dict[int, Tensor], reductions: dict[int, Fact | None]
    ) -> None:
        layer = self._inside[-1]
        if not equation.outvars:
            return
        dtype = _dtype(equation)
        if not _inner_jaxprs(equation):
            for argument in equation.invars:
                value = _value(argument, constants)
                if value is not None:
                    converts = equation.primitive.name == "convert_element_type"
                    used = dtype if converts else str(value.dtype)
                    self.found += of_constant(layer, used, np.asarray(value))
        made = self._values[id(equation.outvars[0])]
        self.found += of_value(layer, dtype, made)
        kind = _REDUCTIONS.get(equation.primitive.name)
        if kind is not None and (kind != SUM or may_overflow(made)):
            bound = made.sources[0].bound if kind == SUM else math.inf
            reduced = Fact(layer, kind, dtype, _reduced(equation), bound=bound)
            self.found.append(reduced)
            reductions[id(equation.outvars[0])] = reduced
        elif equation.primitive.name == "tanh":
            self.found.append(of_tanh(layer, dtype, made))
        elif equation.primitive.name in ("broadcast_in_dim", "reshape", "squeeze"):
            reductions[id(equation.outvars[0])] = reductions.get(id(equation.invars[0]))
        elif equation.primitive.name in ("dot_general", "conv_general_dilated"):
            self.found.append(Fact(layer, PRODUCT, str(equation.invars[0].aval.dtype)))
        elif equation.primitive.name == "convert_element_type":
            if promotes(str(getattr(equation.invars[0].aval, "dtype", "")), dtype):
                traced = equation.source_info.traceback
                frames = traced.frames if traced is not None else ()
                line = user_line((frame.file_name, frame.line_num) for frame in frames)
                self.found.append(Fact(layer, PROMOTION, dtype, line=line))
            # JAX reduces float16 in float32, and rounds the result.
            rounded = reductions.get(id(equation.invars[0]))
            if rounded is not None:
                self.found.append(replace(rounded, dtype=dtype))


def _passed(equation: "JaxprEqn", inner: "Jaxpr") -> "list[tuple[Var, object]]":
    """The arguments of an inner jaxpr that are those of the equation at every run, in pairs."""
    pairs = list(zip(inner.invars, equation.invars, strict=False))
    if equation.primitive.name in _CALLS:
        return pairs
    if equation.primitive.name == "scan":
        constants, carried = equation.params["num_consts"], equation.params["num_carry"]
        return pairs[:constants] + pairs[constants + carried :]
    return []


def _value(argument: object, constants: dict[int, Tensor]) -> Tensor | None:
    value = getattr(argument, "val", constants.get(id(argument)))
    return value if value is None or hasattr(value, "dtype") else np.asarray(value)


def _reduced(equation: "JaxprEqn") -> float:
    if equation.primitive.name == "scatter-add":
        return math.inf  # the lengths of its sums lie in the data
    shape = equation.invars[0].aval.shape
    axes = equation.params.get("axes", (equation.params.get("axis"),))
    return _product_of([shape[axis] for axis in axes])


def _product_of(sizes: "list[int | object]") -> float:
    """The product of sizes; infinity if one of them is unknown."""
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known) if len(known) == len(sizes) else math.inf


def _terms(equation: "JaxprEqn") -> float:
    """The number of values in each sum of a reduction or product; infinity if it is unknown."""
    if equation.primitive.name != "dot_general":
        return _reduced(equation) if equation.primitive.name in _REDUCTIONS else math.inf
    (axes, _), _ = equation.params["dimension_numbers"]
    return _product_of([equation.invars[0].aval.shape[axis] for axis in axes])


def _dtype(equation: "JaxprEqn") -> str:
    return str(getattr(equation.outvars[0].aval, "dtype", "")) if equation.outvars else ""


def _converts_integers(equation: "JaxprEqn") -> bool:
    if equation.primitive.name != "convert_element_type":
        return False
    source, target = (one.aval.dtype for one in (equation.invars[0], equation.outvars[0]))
    # A byte has no number past 255.
    return source.kind in "iu" and source.itemsize > 1 and target.kind not in "iub"


def _inner_jaxprs(equation: "JaxprEqn") -> "list[Jaxpr]":
    found = []
    for value in tree.flatten(list(equation.params.values())):
        value = getattr(value, "jaxpr", value)
        if hasattr(value, "eqns"):
            found.append(value)
    return found


def _layers_in(jaxpr: "Jaxpr") -> set[int]:
    found = set()
    for equation in jaxpr.eqns:
        layer = _layer_of(equation)
        found |= {layer} if layer is not None else set()
        for inner in _inner_jaxprs(equation):
            found |= _layers_in(inner)
    return found
