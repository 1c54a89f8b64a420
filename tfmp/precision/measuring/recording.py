"""A model that was run once in float32: which of its layers feed which others, and the loss."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache

import keras
import numpy as np
from keras import tree

from tfmp.precision import layer_tree
from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.measuring.calls import (
    Arguments,
    Call,
    Replay,
    in_float32,
    losses_kept,
    recorded,
)
from tfmp.precision.measuring.first_op import failure
from tfmp.precision.measuring.made_inputs import possible_arguments
from tfmp.shared.backend import Tensor, TensorTree, current_backend

# Weights among the sources of a flow, which are indices of calls.
_WEIGHTS = -1


class NotRunError(RuntimeError):
    """A model could not be run, whatever its dtypes."""


class Recording:
    """The calls of a model's layers in one forward pass.

    Attributes:
        root: the tree of the model.
        arguments: what it was called with.
        call: its own call.
        calls: all calls, by id of the layer.
        makers: by id of a float, the innermost call that returned it.
    """

    def __init__(self, root: LayerNode, data: TensorTree) -> None:
        """Runs the model in float32, in training mode; no variable changes.

        Without data its inputs are made up. A model that cannot be run raises `NotRunError`.
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
        for call in self.call.within():
            self.calls.setdefault(id(call.node.layer), []).append(call)
            given = set(map(id, call.arguments()))
            made = (id(value) for value in call.results() if id(value) not in given)
            self.makers.update(dict.fromkeys(made, call))
        self._flow, self._made_by = cache(self._compute_flow), cache(self._compute_made_by)

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

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Lets the model compute in float32, and forget the losses that it adds, in a block.

        A backend may trace the body of a loop, in which no value is known, unless it runs step by
        step.
        """
        loops = current_backend().loops_unrolled() if self._unrolls_loops else nullcontext()
        with loops, in_float32(self.root.within()), losses_kept(self.root):
            yield

    def measured_calls(self) -> Iterator[Call]:
        """The calls of code that is not Keras's own, the innermost first: two of each layer."""
        for node in reversed(list(self.root.within())):
            calls = [call for call in self.calls.get(id(node.layer), ()) if call.is_concrete]
            if calls and layer_tree.has_own_code(node):
                yield from dict.fromkeys((calls[0], calls[-1]))

    def ends(self, call: Call) -> set[int]:
        """Ids of the layers that compute the result of a call."""
        layer, own = call.node.layer, {id(part.layer) for part in call.node.unit()}
        if not call.is_concrete:
            return set(layer_tree.output_layers(call.node))
        if not call.inner:
            passes_on = layer_tree.is_custom(layer) and call.passes_on
            return own | self.feeders(call) if passes_on else own
        found = self._made_by(call, None) or self.ends(call.inner[-1])
        if call.passes_on or layer_tree.is_graph(layer):
            return found
        # Operations on results of layers compute in the dtype of these, whatever the model's is.
        has_own = call is not self.call or self._flow(call, None) & {None, _WEIGHTS}
        return found | own if has_own else found

    def feeders(self, call: Call) -> set[int]:
        """Ids of the layers that compute the arguments of a call."""
        if call.caller is None:
            return set()
        sources = self._flow(call.caller, call.place)
        before = self.feeders(call.caller) if None in sources else set()
        return self._made_by(call.caller, call.place) | before

    def _compute_made_by(self, call: Call, place: int | None) -> set[int]:
        """Ids of the layers in a call that compute what an inner call gets, or the result (None).

        Behind layers that only move values they are those before them, too.
        """
        found: set[int] = set()
        sources = self._flow(call, place)
        for inner in (one for one in call.inner if one.place in sources):
            found |= self.ends(inner)
            if layer_tree.only_moves_values(inner.node.layer):
                found |= self._made_by(call, inner.place)
        return found

    def readers(self, call: Call) -> set[int]:
        """Ids of the layers that read the result of a call, through those that only move values."""
        if call.caller is None:
            return set()
        behind = call.caller.inner[call.place + 1 :]
        reading = [one for one in behind if call.place in self._flow(call.caller, one.place)]
        return {key for one in reading for key in self.reading(one)}

    def reading(self, call: Call) -> set[int]:
        """Ids of a layer that reads numbers, and of those behind it if it only moves them."""
        own = {id(part.layer) for part in call.node.unit()}
        return own | self.readers(call) if layer_tree.only_moves_values(call.node.layer) else own

    def _compute_flow(self, call: Call, place: int | None) -> frozenset[int | None]:
        """The sources of an inner call's arguments, or of the result (None): their gradients say.

        Returns:
            Indices of inner calls before it; None for arguments of the call itself.
        """
        draw = np.random.default_rng(0)
        values = [draw.standard_normal(one.shape, "float32") for one in call.inputs]
        dtypes = ["float32"] * len(values)
        try:
            with self.in_float32():
                ran = Replay(call, dtypes, lambda outcome: outcome.at(place))(values)
        except Exception:  # it may take derivatives of layers, which do not run here
            return frozenset((None, *range(len(call.inner) if place is None else place)))
        sources = [*call.sources, *[_WEIGHTS] * len(call.weights)]
        return frozenset(s for s, slopes in zip(sources, ran.slopes, strict=True) if np.any(slopes))


def _symbolic(value: Tensor) -> keras.KerasTensor | None:
    if value is None:
        return None
    dtype = keras.backend.standardize_dtype(value.dtype)
    return keras.KerasTensor((None, *value.shape[1:]), dtype)
