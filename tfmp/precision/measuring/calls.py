"""The calls of a model's layers: recorded in one run, and run again alone on other numbers."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle
from typing import Any

import keras
import numpy as np
from keras import layers, ops, tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

from tfmp.precision import NARROW_DTYPES
from tfmp.precision.layer_tree import LayerNode
from tfmp.shared.backend import Tensor, TensorTree, current_backend

# Keras's `Layer.__call__` is patched while a model is watched.
_PATCHING = threading.RLock()

# Attributes that every layer has; those beyond them are a layer's settings.
_COMMON, _OF_TENSORFLOW = frozenset(vars(layers.Layer())), "_self_"

LOSS = -1  # a model's loss among the indices of the calls that get results

# Positional arguments, and those by name.
Arguments = tuple[Sequence[TensorTree], dict[str, TensorTree]]

# Gets a layer, a function that calls it, and the arguments before the layer casts them.
Handler = Callable[[LayerNode, Callable[[], TensorTree], tuple, dict], TensorTree]


@dataclass(eq=False)
class Call:
    """One call of a layer. Its code can run again: the layers that it calls return given numbers.

    Attributes:
        node: the layer.
        args, kwargs: the arguments, before the layer cast them.
        result: what it returned.
        caller, place: the call around it, and its index there; None for the model.
        inner: the calls that its code made, in their order.
        is_concrete: whether all values are known: in a loop that is being traced they are not.
        answered: by index, what the inner calls were handed that the latest run came to.
        infers: whether its code runs without training, too, as `predict` has it.
    """

    node: LayerNode
    args: tuple[TensorTree, ...]
    kwargs: dict[str, TensorTree]
    caller: "Call | None" = None
    place: int = 0
    result: TensorTree = None
    inner: "list[Call]" = field(default_factory=list)
    is_concrete: bool = True
    answered: dict[int, list[Tensor]] = field(default_factory=dict)
    infers: bool = False

    def arguments(self) -> list[Tensor]:
        """The floats among the arguments."""
        return floats((self.args, self.kwargs))

    def results(self) -> list[Tensor]:
        """The floats in the result."""
        return floats(self.result)

    def within(self) -> "Iterator[Call]":
        """This call and all calls in it."""
        yield self
        for call in self.inner:
            yield from call.within()

    @cached_property
    def inputs(self) -> list[Tensor]:
        """The floats that its code got: arguments, and then results of the inner calls."""
        return [*self.arguments(), *(value for call in self.inner for value in call.results())]

    @cached_property
    def sources(self) -> list[int | None]:
        """For each of the inputs, the index of the inner call; None for arguments."""
        inner = [index for index, call in enumerate(self.inner) for _ in call.results()]
        return [*[None] * len(self.arguments()), *inner]

    @cached_property
    def passed(self) -> frozenset[int]:
        """Which of its results, and of what it hands to inner calls, are inputs as they were."""
        inputs = set(map(id, self.inputs))
        handed = [value for one in self.inner if one.is_concrete for value in one.arguments()]
        made = enumerate([*self.results(), *handed])
        return frozenset(index for index, value in made if id(value) in inputs)

    @property
    def passes_on(self) -> bool:
        """Whether all its results are inputs, as they were."""
        return self.passed.issuperset(range(len(self.results())))

    @cached_property
    def weights(self) -> list[keras.Variable]:
        """The layer's own floats, and those of the layers that it made for itself."""
        return [one for part in self.node.unit() for one in _own_floats(part.layer)]

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for code that computes the same: the class, its settings, and all shapes."""
        layer = self.node.layer
        settings = [(type(part.layer), _settings(part.layer)) for part in self.node.unit()]
        structure = tree.map_structure(_fixed, (self.args, self.kwargs))
        inner = [
            (type(call.node.layer), str(tree.map_structure(_fixed, call.result)))
            for call in self.inner
        ]
        own = id(layer) if isinstance(layer, keras.Model) else None
        return (own, tuple(settings), str(structure), tuple(inner))

    def run(self, values: Sequence[Tensor], weights: Sequence[Tensor], training: bool) -> "Outcome":
        """Runs the code on other inputs and weights, under the policies that its layers have.

        No variable changes.
        """
        mapping = list(zip(self.weights, weights, strict=True))
        left = iter(values)
        args, kwargs = _with_floats((self.args, self.kwargs), left)
        answer = self._answers([_with_floats(inner.result, left) for inner in self.inner])
        if self.node.layer._call_has_training_arg:
            kwargs = {"training": True, **kwargs} if training else {**kwargs, "training": False}
        with (
            keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope,
            watched_calls([inner.node for inner in self.inner], answer),
        ):
            before = dict(scope.state_mapping)
            made = floats(self.node.layer(*args, **kwargs))
        places: list[int | None] = [None] * len(made)
        for index, handed in [*sorted(self.answered.items()), (LOSS, scope.losses)]:
            made += handed
            places += [index] * len(handed)
        after = scope.state_mapping
        states = {
            index: after[id(one)]
            for index, one in enumerate(self.weights)
            if after[id(one)] is not before[id(one)]
        }
        return Outcome(made, places, states)

    def _answers(self, returned: list[TensorTree]) -> Handler:
        """Answers for the layers that it calls; notes what they are handed.

        A layer may be called more often than in the recorded call: gradients compute some code
        again.
        """
        places: dict[int, list[int]] = {}
        for index, inner in enumerate(self.inner):
            places.setdefault(id(inner.node.layer), []).append(index)
        turns = {key: cycle(indices) for key, indices in places.items()}
        answered = self.answered = {}

        def answer(
            node: LayerNode, call: Callable[[], TensorTree], args: tuple, kwargs: dict
        ) -> TensorTree:
            index = next(turns[id(node.layer)])
            if self.inner[index].is_concrete:
                answered.setdefault(index, floats((args, kwargs)))
            return returned[index]

        return answer


@dataclass
class Outcome:
    """The result of a call's code that ran again; on JAX the tensors have dtypes only.

    Attributes:
        made: the floats in its result, then those that it handed to the layers that it calls, and
            those that its own code added to the loss.
        places: for each of these, the inner call that got it; None in the result, or `LOSS`.
        states: by index of the weight, the values that it assigned.
        results: of a replay, the chosen results, in float32.
        slopes: the gradients of its inputs and then of its weights, divided by what arrived.
    """

    made: list[Tensor]
    places: list[int | None]
    states: dict[int, Tensor]
    results: list[np.ndarray] = field(default_factory=list)
    slopes: list[np.ndarray] = field(default_factory=list)

    def at(self, place: int | None) -> list[Tensor]:
        """The floats in the result (None), or those that an inner call was handed."""
        pairs = zip(self.made, self.places, strict=True)
        return [value for value, where in pairs if where == place]


@contextmanager
def watched_calls(nodes: Iterable[LayerNode], handler: Handler) -> Iterator[None]:
    """Lets a handler answer every call of some layers, and leaves nothing behind.

    The class is patched, not `call` of each instance: the arguments matter as they are before a
    layer casts them to its own dtype.
    """
    watched = {id(node.layer): node for node in nodes}
    with _PATCHING:
        original = layers.Layer.__call__

        def answered(layer: layers.Layer, *args: TensorTree, **kwargs: TensorTree) -> TensorTree:
            if id(layer) not in watched:
                return original(layer, *args, **kwargs)
            node = watched[id(layer)]
            return handler(node, lambda: original(layer, *args, **kwargs), args, kwargs)

        layers.Layer.__call__ = answered
        try:
            yield
        finally:
            layers.Layer.__call__ = original


def recorded(entry: LayerNode, arguments: Arguments) -> Call:
    """Calls a model in training mode, and notes every call of a layer; no variable changes."""
    top: list[Call] = []
    running: list[Call] = []

    def note(
        node: LayerNode, call: Callable[[], TensorTree], args: tuple, kwargs: dict
    ) -> TensorTree:
        caller = running[-1] if running else None
        beside = caller.inner if caller else top
        own = Call(node, args, kwargs, caller, len(beside))
        beside.append(own)
        running.append(own)
        try:
            own.result = call()
        finally:
            running.pop()
        values = filter(ops.is_tensor, tree.flatten((args, kwargs, own.result)))
        own.is_concrete = all(map(_is_concrete, values))
        return own.result

    positional, keywords = arguments
    training = {"training": True} if entry.layer._call_has_training_arg else {}
    deciding = (node for node in entry.within() if node.head is None)
    scope = keras.StatelessScope(collect_losses=True)
    with scope, watched_calls(deciding, note), current_backend().without_gradients():
        entry.layer(*positional, **keywords, **training)
    return top[0]


class Replay:
    """Runs a call's code, under the policies that its layers have at the first run.

    Its inputs arrive in given dtypes, and gradients of a fixed random direction at the chosen
    results.
    """

    def __init__(
        self, call: Call, dtypes: Sequence[str], chosen: Callable[[Outcome], Sequence[Tensor]]
    ) -> None:
        self._call, self._dtypes, self._chosen = call, dtypes, chosen
        self._program = current_backend().as_written(self._pulled_back)

    def __call__(self, values: Sequence[np.ndarray], arriving: float = 1.0) -> Outcome:
        """Runs it on numbers for its inputs; the gradients that arrive have a size."""
        with np.errstate(over="ignore"):
            results, slopes = map(arrays, self._program(self.sources(values), arriving))
        return replace(self._outcome, results=results, slopes=[one / arriving for one in slopes])

    def sources(self, values: Sequence[np.ndarray]) -> list[Tensor]:
        """Numbers for its inputs, in their dtypes, and the call's weights."""
        pairs = zip(values, self._dtypes, strict=True)
        return [
            *(ops.cast(ops.convert_to_tensor(value), dtype) for value, dtype in pairs),
            *(ops.convert_to_tensor(one.value) for one in self._call.weights),
        ]

    @cached_property
    def traced(self) -> Outcome:
        """From a trace as in `fit`, which computes nothing: loops want one dtype there."""
        weights = [(tuple(one.shape), one.dtype) for one in self._call.weights]
        pairs = zip(self._call.inputs, self._dtypes, strict=True)
        likes = [*((tuple(one.shape), dtype) for one, dtype in pairs), *weights]

        def function(*tensors: Tensor) -> None:  # no tensor leaves the loop that it was made in
            for training in (False, True) if self._call.infers else (True,):
                self.run(list(tensors), training)

        with np.errstate(over="ignore"):  # constants past 65504 are no failures
            current_backend().trace(function, likes)
        return self._outcome

    def run(self, tensors: list[Tensor], training: bool = True) -> list[Tensor]:
        """The chosen results for its sources."""
        count = len(self._dtypes)
        self._outcome = self._call.run(tensors[:count], tensors[count:], training)
        return list(self._chosen(self._outcome))

    def _pulled_back(
        self, sources: list[Tensor], size: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The chosen results, and the gradients of the sources."""

        def arrive(results: list[Tensor]) -> list[Tensor]:
            pairs = zip(results, directions([one.shape for one in results]), strict=True)
            return [ops.cast(values * size, one.dtype) for one, values in pairs]

        return current_backend().pulled_back(self.run, sources, arrive)


def directions(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """The fixed random directions of gradients that arrive at results."""
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape) for shape in shapes]


def arrays(values: Sequence[Tensor]) -> list[np.ndarray]:
    """Tensors as float32."""
    with np.errstate(all="ignore"):
        return [np.asarray(ops.convert_to_numpy(value), "float32") for value in values]


def _own_floats(layer: layers.Layer) -> list[keras.Variable]:
    metrics = [one for metric in layer._metrics for one in metric.variables]
    own = [*layer._trainable_variables, *layer._non_trainable_variables, *metrics]
    return [one for one in own if keras.backend.is_float_dtype(one.dtype)]


def _settings(layer: layers.Layer) -> str:
    own = {name: _fixed(value) for name, value in vars(layer).items() if name not in _COMMON}
    return str(sorted((k, str(v)) for k, v in own.items() if not k.startswith(_OF_TENSORFLOW)))


def _fixed(value: Any) -> object:
    """What is equal for equal settings, weights and arguments."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set):
        return [_fixed(one) for one in value]
    if isinstance(value, dict):
        return [(str(key), _fixed(one)) for key, one in value.items()]
    if isinstance(value, layers.Layer):
        return type(value)
    if isinstance(value, keras.Variable) or is_float(value):
        return (tuple(value.shape), str(value.dtype))
    if hasattr(value, "get_config"):
        with suppress(Exception):  # not every class of a user's has one
            return (type(value), str(value.get_config()))
    if isinstance(value, np.ndarray) or (ops.is_tensor(value) and _is_concrete(value)):
        array = np.asarray(ops.convert_to_numpy(value))
        return (array.shape, str(array.dtype), hash(array.tobytes()))
    return id(value)


def _with_floats(values: TensorTree, left: Iterator[Tensor]) -> TensorTree:
    """A structure with other floats in it, which have the masks of those before."""

    def replaced(value: Any) -> Any:
        if not is_float(value):
            return value
        new, mask = next(left), get_keras_mask(value)
        if mask is not None:
            set_keras_mask(new, mask)
        return new

    return tree.map_structure(replaced, values)


def floats(values: TensorTree) -> list[Tensor]:
    """The floating-point tensors in a nested structure."""
    return [value for value in tree.flatten(values) if is_float(value)]


def is_float(value: Any) -> bool:
    """Whether a value is a dense floating-point tensor."""
    if not current_backend().is_dense(value):
        return False
    return keras.backend.is_float_dtype(keras.backend.standardize_dtype(value.dtype))


def _is_concrete(value: Any) -> bool:
    """Whether a tensor has values; inside a function that is being traced it has not."""
    return current_backend().is_concrete(
        value.value if isinstance(value, keras.Variable) else value
    )


@contextmanager
def in_float32(nodes: Iterable[LayerNode]) -> Iterator[None]:
    """Lets layers of 16 bits compute in float32, in a block that may set their policies, too."""
    # The attribute behind the property: Keras's setter would write into a shared DTypePolicyMap.
    before = [(node.layer, node.layer._dtype_policy) for node in nodes]
    try:
        for layer, _ in before:
            if layer.compute_dtype in NARROW_DTYPES:
                layer._dtype_policy = keras.dtype_policies.get("float32")
        yield
    finally:
        for layer, policy in before:
            layer._dtype_policy = policy


@contextmanager
def losses_kept(root: LayerNode) -> Iterator[None]:
    """Restores the losses that layers remember from their `add_loss` calls."""
    before = [(n.layer, list(n.layer._losses), set(n.layer._loss_ids)) for n in root.within()]
    try:
        yield
    finally:
        for layer, losses, ids in before:
            layer._losses[:] = losses
            layer._loss_ids.clear()
            layer._loss_ids.update(ids)
