"""Gathers the facts that have to be known before a model's layers can be decided."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import keras
import numpy as np
from keras import layers, ops, tree

from tfmp.precision import layer_tree
from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.measuring.alterations import Given, drawn
from tfmp.precision.measuring.calls import Call
from tfmp.precision.measuring.measurement import FAILED_DRY_RUN, OWN, Measurement, Need
from tfmp.precision.measuring.recording import NotRunError, Recording
from tfmp.shared.backend import Tensor, TensorTree

# Each round sets layers to float32 for which others may fail; most models need two.
_ROUNDS = 16


@dataclass
class Evidence:
    """The facts from a model's graphs and from runs of its own code, by id of the layer.

    Attributes:
        outputs: layers that compute the values that the loss sees.
        notes: for the user, models that could not be run.
        unscalable: layers whose own gradients do not grow with the loss.
        measured: layers that fail in 16 bits or lose by them, with what was measured.
        lookups_in_16_bits: layers that get the base policy even if they look up: float32 results
            would keep the layers behind them out of 16 bits.
    """

    outputs: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    unscalable: set[int] = field(default_factory=set)
    measured: dict[int, str] = field(default_factory=dict)
    lookups_in_16_bits: set[int] = field(default_factory=set)


# For what is known so far, the policy that each layer would get, by id of the layer.
Wanted = Callable[[Evidence], Mapping[int, str | None]]


def gather(root: LayerNode, wanted: Wanted, base: str, data: TensorTree = None) -> Evidence:
    """Gathers the facts; runs the code of models that is not Keras's own, and changes nothing.

    Most layers would get the base policy. Without data the inputs are made up.
    """
    found = Evidence()
    measured: list[Recording] = []
    pending = entry_points(root)
    while pending:
        node = pending.pop(0)
        if not any(map(layer_tree.has_own_code, node.within())):
            found.outputs |= layer_tree.output_layers(node)
            continue
        try:
            model = Recording(node, data if node is root else None)
        except NotRunError as error:
            parts = _not_called(node, frozenset())
            _give_up(node, error, parts, found)
            pending += parts
            continue
        measured.append(model)
        pending += _not_called(node, frozenset(model.calls))
        found.outputs |= model.ends(model.call)
    for model in measured:
        _Needs(model, found, wanted, base).add_all()
    return found


def entry_points(root: LayerNode) -> list[LayerNode]:
    """The models that a training step calls: the model, or its parts if it has no `call`.

    Models with a `train_step` of their own, such as autoencoders and GANs, often have no `call`.
    The outputs of every part then count as values that a loss may see.
    """
    if layer_tree.has_call(root.layer):
        return [root]
    return [entry for child in root.children for entry in entry_points(child)]


def _give_up(entry: LayerNode, error: NotRunError, parts: list[LayerNode], found: Evidence) -> None:
    """Leaves the code of a model in float32 that could not be run."""
    where = layer_tree.describe(entry.path)
    found.notes.append(f"{where} could not be run, so its own code stays float32: {error}")
    alone = {id(node.layer) for part in parts for node in part.within()}
    own = {
        id(part.layer)
        for node in entry.within()
        if layer_tree.is_custom(node.layer) and not layer_tree.is_graph(node.layer)
        for part in node.within()
    }
    found.outputs |= layer_tree.output_layers(entry) - alone
    reason = f"{FAILED_DRY_RUN} in 16 bits: {where} could not be run"
    found.measured.update(dict.fromkeys(own - alone, reason))


def _not_called(entry: LayerNode, called: frozenset[int]) -> list[LayerNode]:
    """Models in a model that its `call` leaves to a `train_step`, such as a teacher."""
    found: list[LayerNode] = []
    for child in entry.children:
        if not isinstance(child.layer, keras.Model) or id(child.layer) in called:
            found += _not_called(child, called)
        elif child.layer.built:
            found += entry_points(child)
    return found


class _Needs:
    """Measures the pieces of a recorded model, equal ones once, and adds what they need."""

    def __init__(self, model: Recording, found: Evidence, wanted: Wanted, base: str) -> None:
        self.model, self.found, self.wanted = model, found, wanted
        self.dtype = base.removeprefix("mixed_")
        self.in_range = base == "mixed_float16"  # bfloat16 has the range of float32
        self.is_mixed = base.startswith("mixed_")
        self.policies = wanted(found)
        other = wanted(replace(found, lookups_in_16_bits=set(model.nodes)))
        # Layers that are float32 because a lookup gains nothing.
        self._lookups = {key for key, policy in self.policies.items() if policy != other[key]}
        self._known: dict[object, Need] = {}
        self._of_layer: dict[int, Need] = {}
        self._raw = {id(value) for value in tree.flatten(model.arguments)}

    def add_all(self) -> None:
        """Measures every piece, until none asks for more."""
        for repeated in range(_ROUNDS):
            with self.model.in_float32():
                for call in self.model.measured_calls():
                    need = self._of_layer[id(call.node.layer)] = self._need(call, repeated > 0)
                    self._apply(call, need)
            before, self.policies = self.policies, self.wanted(self.found)
            if self.policies == before:
                return

    def _need(self, call: Call, again: bool) -> Need:
        pairs = enumerate(zip(call.inputs, call.sources, strict=True))
        given = [self._given(call, index, *each) for index, each in pairs]
        is_wide = self._is_wide(id(call.node.layer))
        plan = [(one.is_bounded, one.is_raw, one.dtype, one.is_lookup) for one in given]
        key = (call.key, tuple(plan), is_wide, again)
        if key not in self._known:
            self._known[key] = Need()
            set_policies = partial(self._set_policies, call.node)
            with suppress(Exception):  # it may run within its model only
                measurement = Measurement(call, given, is_wide, self.dtype, set_policies)
                self._known[key] = measurement.need
                measurement.run(self.is_mixed)
                if self.in_range and not again:
                    measurement.measure()
        return self._known[key]

    def _given(self, call: Call, index: int, value: Tensor, source: int | None) -> Given:
        """Numbers for an input of a piece, and their dtype under the plan."""
        maker = self.model.makers.get(id(value)) if source is None else call.inner[source]
        is_known = maker is None or maker.is_concrete
        seen = np.asarray(ops.convert_to_numpy(value), "float32") if is_known else None
        values, is_fixed = drawn(seen, tuple(value.shape), index)
        dtype, is_raw = self._dtype(value, maker), id(value) in self._raw
        key = id(maker.node.layer) if maker is not None else 0
        is_lookup = key in self._lookups and dtype == "float32"
        is_bounded = self._is_bounded(self.model.makers.get(id(value)))
        return Given(values, is_fixed, is_bounded, is_raw, dtype, is_lookup)

    def _is_bounded(self, call: Call | None) -> bool:
        if call is None:
            return False
        layer = call.node.layer
        if layer_tree.only_moves_values(layer) and call.arguments():
            return all(self._is_bounded(self.model.makers.get(id(v))) for v in call.arguments())
        if id(layer) in self._of_layer:
            return self._of_layer[id(layer)].bounded
        if layer_tree.is_custom(layer) or not callable(getattr(layer, "activation", None)):
            return isinstance(layer, layers.Softmax)
        ends = [ops.convert_to_tensor([[-size, size]]) for size in (1e4, 2e4)]
        one, other = (ops.convert_to_numpy(layer.activation(end)) for end in ends)
        return bool(np.isfinite(one).all() and np.allclose(one, other, rtol=1e-3))

    def _dtype(self, value: Tensor, maker: Call | None) -> str:
        """The dtype in which a piece gets a float under the plan."""
        if maker is None:
            return "float32" if id(value) in self._raw else self.dtype
        layer = maker.node.layer
        need = self._of_layer.get(id(layer))
        index = list(map(id, maker.results())).index(id(value))
        if need is not None and index < len(need.dtypes):
            return need.dtypes[index]
        keys = self.model.ends(maker) if layer_tree.is_graph(layer) else {id(layer)}
        return "float32" if all(map(self._is_wide, keys)) else self.dtype

    def _is_wide(self, key: int) -> bool:
        policy = self.policies.get(key)
        return policy in (None, "float32")

    def _set_policies(self, node: LayerNode, own: bool, inner: bool) -> None:
        """Makes a piece, or the layers that it calls, float32; others have what is planned."""
        unit = {id(part.layer) for part in node.unit()}
        for part in node.within():
            planned = self.policies.get(id(part.layer))
            is_wide = own if id(part.layer) in unit else inner
            if planned is not None:
                policy = "float32" if is_wide else planned
                part.layer._dtype_policy = keras.dtype_policies.get(policy)

    def _apply(self, call: Call, need: Need) -> None:
        """Adds what a piece needs to the evidence."""
        where, model = layer_tree.describe(call.node.path), self.model
        own = {id(part.layer) for part in call.node.unit()}
        for part, reason in need.parts.items():
            keys = own
            if part != OWN:
                keys = model.feeders(call) if part is None else model.ends(call.inner[part])
                if part in need.flat and not self._may_be_flat(keys):
                    continue
            is_whole = part == OWN or reason.startswith(FAILED_DRY_RUN)
            self._keep(keys, reason if is_whole else f"feeds {where}, which {reason}")
        for place, reason in need.readers.items():
            reads = model.readers(call) if place is None else model.reading(call.inner[place])
            self._keep(reads, f"reads numbers of {where}, {reason}")
        is_cell = call.caller is not None and isinstance(call.caller.node.layer, layers.RNN)
        if is_cell and "float32" in need.dtypes:
            self._keep(own, "returns float32, the dtype in which its states have to begin")
        is_narrow = not need.dtypes or self.dtype in need.dtypes
        if call is model.call and is_narrow and not layer_tree.is_graph(call.node.layer):
            self.found.outputs |= own  # what it returns is in 16 bits otherwise
        if need.unscalable:
            self.found.unscalable.add(id(call.node.layer))
        if need.lookups:
            called = {id(inner.node.layer) for inner in call.inner}
            self.found.lookups_in_16_bits |= called & self._lookups

    def _may_be_flat(self, keys: set[int]) -> bool:
        """Whether results of layers may have rows of one number: these come through no offset."""
        pending, seen = list(keys), set(keys)
        while pending:
            key = pending.pop()
            node, calls = self.model.nodes[key], self.model.calls.get(key)
            if layer_tree.is_custom(node.layer) or _cuts(node.layer):
                return True
            if not calls or layer_tree.only_moves_values(node.layer) or _has_offset(node):
                continue
            feeders = self.model.feeders(calls[0])
            if not feeders and calls[0].arguments():
                return True
            pending += feeders - seen
            seen |= feeders
        return False

    def _keep(self, keys: Iterable[int], reason: str) -> None:
        for key in keys:
            self.found.measured.setdefault(key, reason)


def _has_offset(node: LayerNode) -> bool:
    unit = [part.layer for part in node.unit()]
    return any(getattr(one, name, None) is not None for one in unit for name in ("bias", "beta"))


def _cuts(layer: layers.Layer) -> bool:
    """Whether a layer's activation makes zeros of negative numbers."""
    activation = getattr(layer, "activation", None)
    return callable(activation) and not np.any(
        ops.convert_to_numpy(activation(ops.convert_to_tensor([[-1e4, -2e4]])))
    )
