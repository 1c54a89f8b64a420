"""A model that was run once in float32: which of its layers feed which others, and the loss."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial

import keras
import numpy as np
from keras import ops, tree

from tfmp.precision import NARROW_DTYPES, policy_named
from tfmp.precision.layer_tree import LayerNode, is_graph, only_moves_values, output_layers
from tfmp.precision.measuring.made_inputs import Arguments, possible_arguments
from tfmp.precision.measuring.pieces import Call, Outcome, Piece, is_float, recorded
from tfmp.precision.measuring.replays import directions, replay, slopes_of
from tfmp.precision.measuring.user_lines import failure
from tfmp.precision.measuring.watched_calls import (
    has_own_code,
    is_custom,
    losses_kept,
    policies_kept,
)
from tfmp.shared.backend import Tensor, TensorTree, current_backend

# Layers that compute in one of these may be switched to float32.
_SWITCHED = (*NARROW_DTYPES, "float64")

# A weight that forgets more of its old value at once moves by steps that 16 bits hold.
_FORGOTTEN = 0.1


class NotRunError(RuntimeError):
    """A model could not be run, whatever its dtypes."""


class Recording:
    """The calls of a model's layers in one forward pass.

    Attributes:
        root: the tree of the model.
        arguments: what it was called with.
        call: its own call.
        calls: all calls, by id of the layer.
        callers: by call, the one around it, and its place there.
        makers: by id of a float, the innermost call that returned it.
    """

    def __init__(self, root: LayerNode, data: TensorTree) -> None:
        """Runs the model in float32, in training mode; no variable changes.

        Args:
            root: the tree of the model.
            data: its inputs; None to make them up.

        Raises:
            NotRunError: the model cannot be run.
        """
        self.root = root
        self.nodes = {id(node.layer): node for node in root.within()}
        self._unrolls_loops = False
        with self.in_float32():
            self.arguments, self.call = self._recorded(data)
        if current_backend().traces_loops and not all(c.is_concrete for c in self.call.within()):
            self._unrolls_loops = True
            with self.in_float32(), suppress(Exception):
                self.call = recorded(self.root, self.arguments)
        self.calls: dict[int, list[Call]] = {}
        self.makers: dict[int, Call] = {}
        self.callers: dict[Call, tuple[Call, int]] = {}
        for call in self.call.within():
            self.calls.setdefault(id(call.node.layer), []).append(call)
            self.callers.update((inner, (call, i)) for i, inner in enumerate(call.inner))
            given = set(map(id, call.arguments()))
            made = (id(value) for value in call.results() if id(value) not in given)
            self.makers.update(dict.fromkeys(made, call))
        self._pieces: dict[Call, Piece] = {}
        self._reached: dict[tuple[Call, int | None], frozenset[int | None]] = {}

    def _recorded(self, data: TensorTree) -> tuple[Arguments, Call]:
        last: Exception | None = None
        for arguments in possible_arguments(self.root, data):
            try:
                if not all(node.layer.built for node in self.root.within()):
                    # Weights that are made within the scope would be lost.
                    positional, keywords = tree.map_structure(_symbolic, arguments)
                    self.root.layer(*positional, **keywords)
                return arguments, recorded(self.root, arguments)
            except Exception as error:
                last = last or error
        raise NotRunError(failure(last) if last else "the shapes of its inputs are unknown")

    def in_float32(self) -> ExitStack:
        """Lets the model compute in float32, and forget the losses that it adds, in a block.

        A backend may trace the body of a loop, in which no value is known, unless it runs step by
        step.
        """
        stack = ExitStack()
        if self._unrolls_loops:
            stack.enter_context(current_backend().loops_unrolled())
        stack.enter_context(policies_kept(self.root.within()))
        stack.enter_context(losses_kept(self.root))
        for node in self.root.within():
            if node.layer.compute_dtype in _SWITCHED:
                node.layer._dtype_policy = policy_named("float32")
        return stack

    def piece(self, call: Call) -> Piece:
        """The code of a call."""
        if call not in self._pieces:
            self._pieces[call] = Piece(call, self.root)
        return self._pieces[call]

    def measured_calls(self) -> list[Call]:
        """The calls of code that is not Keras's own, the innermost first: two of each layer."""
        found: list[Call] = []
        for node in reversed(list(self.root.within())):
            calls = self.calls.get(id(node.layer), ())
            if has_own_code(node) and calls:
                both = dict.fromkeys((calls[0], calls[-1]))
                found += [call for call in both if call.is_concrete]
        return found

    def outputs(self) -> set[int]:
        """Ids of the layers that compute the model's results, and a loss in a layer at its end."""
        found = self.ends(self.call)
        for call in self.call.within():
            is_end = not call.inner and id(call.node.layer) in found
            if is_end and is_custom(call.node.layer) and self._run(call).losses:
                found |= self.feeders(call)
        return found

    def states(self) -> dict[int, str]:
        """Layers whose own code moves a weight's value by small steps: its name, by id.

        A count stands still at 2048 in FP16 and at 256 in bfloat16; moving means stop far before.
        What forgets its old value, such as the vector of a power iteration, does not.
        """
        found: dict[int, str] = {}
        for call in self.measured_calls():
            piece = self.piece(call)
            count = len(piece.inputs)
            assigned = self._run(call).states
            for index, variable in enumerate(piece.weights):
                if index not in assigned or not variable._autocast:
                    continue
                slope = self._slopes(call, partial(_state, index))[count + index]
                (arrived,) = directions([slope.shape])
                if np.linalg.norm(slope - arrived) <= _FORGOTTEN * np.linalg.norm(arrived):
                    found.setdefault(id(call.node.layer), variable.name)
        return found

    def slopes_at_zeros(self) -> list[tuple[Call, np.ndarray]]:
        """The gradients of calls' results, where every second row of a model's floats is zeros."""
        ended = list(_ended(self.call))
        owners = [(i, c) for i, c in enumerate(ended) if c.is_concrete for _ in c.results()]

        def function(taps: list[Tensor]) -> list[Tensor]:
            left: dict[int, list[Tensor]] = {}
            for (index, _), tap in zip(owners, taps, strict=True):
                left.setdefault(index, []).append(tap)
            return recorded(self.root, arguments, left).results()

        with self.in_float32():
            arguments = tree.map_structure(_half_zeros, self.arguments)
            calls = dict.fromkeys(call for _, call in owners)
            taps = [ops.zeros_like(one) for call in calls for one in call.results()]
            slopes = slopes_of(function, taps, 1.0)
            return [(call, one) for (_, call), one in zip(owners, slopes, strict=True)]

    def ends(self, call: Call) -> set[int]:
        """Ids of the layers that compute the result of a call."""
        node = call.node
        own = {id(part.layer) for part in node.unit()}
        if is_graph(node.layer) and not any(is_custom(part.layer) for part in node.within()):
            return set(output_layers(node))
        if not call.is_concrete:
            return {id(part.layer) for part in node.within()}
        if not call.inner:
            return own
        sources = self._sources(call, _results)
        inner = {source for source in sources if source is not None}
        found = self._ends_of(call, inner or {len(call.inner) - 1})
        outcome = self._run(call)
        made = [i for i, place in enumerate(outcome.places) if place is None]
        if not is_graph(node.layer) and not set(made) <= outcome.passed:
            found |= own
        return found

    def _ends_of(self, call: Call, sources: Iterable[int | None]) -> set[int]:
        """The ends of inner calls; behind those that only move values, of those before them."""
        found: set[int] = set()
        pending, seen = list(sources), set(sources)
        while pending:
            source = pending.pop()
            if source is None:
                continue
            inner = call.inner[source]
            found |= self.ends(inner)
            if only_moves_values(inner.node.layer):
                more = self.reached(call, source) - seen
                seen |= more
                pending += more
        return found

    def feeders(self, call: Call) -> set[int]:
        """Ids of the layers that compute the arguments of a call."""
        if call not in self.callers:
            return set()
        caller, place = self.callers[call]
        sources = self.reached(caller, place)
        before = self.feeders(caller) if None in sources else set()
        return self._ends_of(caller, sources) | before

    def readers(self, call: Call) -> set[int]:
        """Ids of the layers that read the result of a call, through those that only move values."""
        if call not in self.callers:
            return set()
        caller, place = self.callers[call]
        found: set[int] = set()
        for index in range(place + 1, len(caller.inner)):
            if place in self.reached(caller, index):
                found |= self.reading(caller.inner[index])
        return found

    def reading(self, call: Call) -> set[int]:
        """Ids of a layer that reads numbers, and of those behind it if it only moves them."""
        own = {id(part.layer) for part in call.node.unit()}
        return own | self.readers(call) if only_moves_values(call.node.layer) else own

    def reached(self, call: Call, place: int | None) -> frozenset[int | None]:
        """What goes into an inner call, or into the result (None).

        Returns:
            Indices of inner calls before it; None for arguments of the call itself.
        """
        if (call, place) not in self._reached:
            self._reached[call, place] = self._sources(call, lambda one: _at(one, place))
        return self._reached[call, place]

    def _sources(
        self, call: Call, chosen: Callable[[Outcome], list[Tensor]]
    ) -> frozenset[int | None]:
        piece = self.piece(call)
        pairs = zip(piece.sources, self._slopes(call, chosen), strict=False)
        return frozenset(source for source, slopes in pairs if np.any(slopes))

    def _slopes(self, call: Call, chosen: Callable[[Outcome], list[Tensor]]) -> list[np.ndarray]:
        piece = self.piece(call)
        values = _draws(piece)
        with self.in_float32():
            return replay(piece, values, ["float32"] * len(values), chosen).slopes

    def _run(self, call: Call) -> Outcome:
        piece = self.piece(call)
        with self.in_float32():
            weights = [ops.convert_to_tensor(one.value) for one in piece.weights]
            return piece.run([ops.convert_to_tensor(one) for one in _draws(piece)], weights)


def _ended(call: Call) -> Iterator[Call]:
    """A call and all calls in it, in the order in which they end."""
    for inner in call.inner:
        yield from _ended(inner)
    yield call


def _half_zeros(value: Tensor) -> Tensor:
    if not is_float(value) or not value.shape:
        return value
    odd = np.arange(value.shape[0]).reshape(-1, *[1] * (len(value.shape) - 1)) % 2
    return value * ops.cast(odd, value.dtype)


def _draws(piece: Piece) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal(one.shape, "float32") for one in piece.inputs]


def _symbolic(value: Tensor) -> keras.KerasTensor | None:
    if value is None:
        return None
    dtype = keras.backend.standardize_dtype(value.dtype)
    return keras.KerasTensor((None, *value.shape[1:]), dtype)


def _state(index: int, outcome: Outcome) -> list[Tensor]:
    return [outcome.states[index]]


def _results(outcome: Outcome) -> list[Tensor]:
    return _at(outcome, None)


def _at(outcome: Outcome, place: int | None) -> list[Tensor]:
    pairs = zip(outcome.made, outcome.places, strict=True)
    return [value for value, where in pairs if where == place]
