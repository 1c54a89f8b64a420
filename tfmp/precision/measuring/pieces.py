"""Pieces of a model: the code of one layer in one call, without the layers that it calls."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import keras
import numpy as np
from keras import ops, tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.measuring.made_inputs import Arguments
from tfmp.precision.measuring.watched_calls import Handler, watched_calls
from tfmp.shared.backend import Tensor, TensorTree, current_backend

# Attributes that every layer has; those beyond them are a layer's settings.
_COMMON, _OF_TENSORFLOW = frozenset(vars(keras.layers.Layer())), "_self_"


@dataclass(eq=False)
class Call:
    """One call of a layer.

    Attributes:
        node: the layer.
        args, kwargs: the arguments, before the layer cast them.
        result: what it returned.
        inner: the calls that its code made, in their order.
        is_concrete: whether all values are known: in a loop that is being traced they are not.
    """

    node: LayerNode
    args: tuple[TensorTree, ...]
    kwargs: dict[str, TensorTree]
    result: TensorTree = None
    inner: "list[Call]" = field(default_factory=list)
    is_concrete: bool = True

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


def recorded(
    entry: LayerNode, arguments: Arguments, taps: Mapping[int, list[Tensor]] | None = None
) -> Call:
    """Calls a model in training mode, and notes every call of a layer; no variable changes.

    Args:
        entry: the model.
        arguments: what it is called with.
        taps: numbers to add to the results of the first call that ends, of the second, ...
    """
    root = Call(entry, (), {})
    running, ended = [root], count()

    def note(
        node: LayerNode, call: Callable[[], TensorTree], args: tuple, kwargs: dict
    ) -> TensorTree:
        if node.head is not None:
            return call()
        own = Call(node, args, kwargs)
        running[-1].inner.append(own)
        running.append(own)
        try:
            own.result = call()
        finally:
            running.pop()
        if taps is not None:
            own.result = _added(own.result, iter(taps.get(next(ended), ())))
        values = tree.flatten((args, kwargs, own.result))
        own.is_concrete = all(_is_concrete(value) for value in values if ops.is_tensor(value))
        return own.result

    positional, keywords = arguments
    training = {"training": True} if entry.layer._call_has_training_arg else {}
    noted = current_backend().without_gradients() if taps is None else nullcontext()
    with keras.StatelessScope(collect_losses=True), watched_calls(entry, note), noted:
        entry.layer(*positional, **keywords, **training)
    return root.inner[0]


def _added(values: TensorTree, taps: Iterator[Tensor]) -> TensorTree:
    return tree.map_structure(lambda v: v + next(taps, 0.0) if is_float(v) else v, values)


@dataclass
class Outcome:
    """The result of a piece that ran again.

    Attributes:
        made: the floats in its result, then those that it handed to the layers that it calls.
        places: for each of these, the inner call that got it; None in the result.
        passed: the indices of those that it only passed on.
        losses: what its own code added to the loss.
        states: by index of the weight, the values that it assigned.
    """

    made: list[Tensor]
    places: list[int | None]
    passed: frozenset[int]
    losses: list[Tensor]
    states: dict[int, Tensor]


class Piece:
    """The code of one layer in one call: the layers that it calls return given numbers.

    Attributes:
        call: the recorded call.
        entry: the tree of the model.
        inputs: the floats that it got: arguments, and then results of the layers that it called.
        sources: for each of these, the index of the inner call; None for arguments.
        weights: its own weights, and those of the layers that it made for itself.
        answered: the inner calls that the latest run came to.
    """

    def __init__(self, call: Call, entry: LayerNode) -> None:
        self.call, self.node, self.entry = call, call.node, entry
        self.inputs = call.arguments()
        self.sources: list[int | None] = [None] * len(self.inputs)
        for index, inner in enumerate(call.inner):
            self.inputs += inner.results()
            self.sources += [index] * len(inner.results())
        self.weights = [one for part in self.node.unit() for one in _own_floats(part.layer)]
        self.answered: Mapping[int, list[Tensor]] = {}

    def key(self) -> tuple[object, ...]:
        """Equal for pieces that compute the same: the class, its settings, and all shapes."""
        layer = self.node.layer
        settings = [(type(part.layer), _settings(part.layer)) for part in self.node.unit()]
        structure = tree.map_structure(_fixed, (self.call.args, self.call.kwargs))
        inner = [
            (type(call.node.layer), str(tree.map_structure(_fixed, call.result)))
            for call in self.call.inner
        ]
        own = id(layer) if isinstance(layer, keras.Model) else None
        return (own, tuple(settings), str(structure), tuple(inner))

    def run(
        self, values: Sequence[Tensor], weights: Sequence[Tensor], other_seeds: bool = False
    ) -> Outcome:
        """Runs the piece under the policies that its layers have; no variable changes.

        Args:
            values: numbers for `inputs`.
            weights: values for `weights`.
            other_seeds: whether its random numbers are others than usual.
        """
        mapping = list(zip(self.weights, weights, strict=True))
        for part in self.node.unit() if other_seeds else ():
            for seeds in getattr(part.layer, "_seed_generators", ()):
                mapping.append((seeds.state, seeds.state.value + 1))
        left = iter(values)
        args, kwargs = _with_floats((self.call.args, self.call.kwargs), left)
        returned = [_with_floats(inner.result, left) for inner in self.call.inner]
        handed: dict[int, list[Tensor]] = {}
        self.answered = handed
        answer = _answers(self, returned, handed)
        if self.node.layer._call_has_training_arg:
            kwargs = {"training": True, **kwargs}
        with (
            keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope,
            watched_calls(self.entry, answer),
        ):
            before = dict(scope.state_mapping)
            made = floats(self.node.layer(*args, **kwargs))
        places: list[int | None] = [None] * len(made)
        for index in sorted(handed):
            made += handed[index]
            places += [index] * len(handed[index])
        given = {id(value) for value in values}
        passed = frozenset(i for i, value in enumerate(made) if id(value) in given)
        after = scope.state_mapping
        states = {
            index: after[id(one)]
            for index, one in enumerate(self.weights)
            if after[id(one)] is not before[id(one)]
        }
        return Outcome(made, places, passed, list(scope.losses), states)


def _answers(piece: Piece, returned: list[TensorTree], handed: dict[int, list[Tensor]]) -> Handler:
    """Answers for the layers that a piece calls; notes what they are handed.

    A layer may be called more often than in the recorded call: gradients compute some code again.
    """
    indices: dict[int, list[int]] = {}
    for index, inner in enumerate(piece.call.inner):
        indices.setdefault(id(inner.node.layer), []).append(index)
    counts: Counter[int] = Counter()

    def answer(
        node: LayerNode, call: Callable[[], TensorTree], args: tuple, kwargs: dict
    ) -> TensorTree:
        key = id(node.layer)
        if node.head is not None or key not in indices:
            return call()
        count, known = counts[key], indices[key]
        counts[key] += 1
        index = known[count % len(known)]
        if count < len(known) and piece.call.inner[index].is_concrete:
            handed[index] = floats((args, kwargs))
        return returned[index]

    return answer


def _own_floats(layer: keras.layers.Layer) -> list[keras.Variable]:
    metrics = [one for metric in layer._metrics for one in metric.variables]
    own = [*layer._trainable_variables, *layer._non_trainable_variables, *metrics]
    return [one for one in own if keras.backend.is_float_dtype(one.dtype)]


def _settings(layer: keras.layers.Layer) -> str:
    return str(
        sorted(
            (name, str(_fixed(value)))
            for name, value in vars(layer).items()
            if name not in _COMMON and not name.startswith(_OF_TENSORFLOW)
        )
    )


def _fixed(value: Any) -> object:
    """What is equal for equal settings, weights and arguments."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set):
        return [_fixed(one) for one in value]
    if isinstance(value, dict):
        return [(str(key), _fixed(one)) for key, one in value.items()]
    if isinstance(value, keras.layers.Layer):
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
    if isinstance(value, keras.Variable):
        value = value.value
    return current_backend().is_concrete(value)
