"""Measures the pieces of a recorded model, and says which of its layers they make float32."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import keras
import numpy as np
from keras import layers, ops, tree

from tfmp.precision import policy_named
from tfmp.precision.layer_tree import LayerNode, describe, is_graph, only_moves_values
from tfmp.precision.measuring.alterations import Given, drawn
from tfmp.precision.measuring.facts import FAILED_DRY_RUN, Evidence, Wanted
from tfmp.precision.measuring.measured_piece import OWN, Measurement, Need, Setting
from tfmp.precision.measuring.pieces import Call, Piece
from tfmp.precision.measuring.recording import Recording
from tfmp.precision.measuring.user_lines import promoting_line
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

# Activations of Keras whose results never grow.
_BOUNDED = (
    keras.activations.softmax,
    keras.activations.sigmoid,
    keras.activations.hard_sigmoid,
    keras.activations.tanh,
    keras.activations.hard_tanh,
    keras.activations.softsign,
)

# Each round sets layers to float32 for which others may fail; most models need two.
_ROUNDS = 16


class Needs:
    """Measures pieces, equal ones once, and adds what they need to the evidence.

    Args:
        model: the recorded model.
        found: the evidence.
        wanted: for the evidence, the policy that each layer would get.
        base: name of the policy that most layers would get.
    """

    def __init__(self, model: Recording, found: Evidence, wanted: Wanted, base: str) -> None:
        self.model, self.found, self.wanted = model, found, wanted
        self.dtype = policy_named(base).compute_dtype
        self.in_range = base == "mixed_float16"  # bfloat16 has the range of float32
        self.is_mixed = base.startswith("mixed_")
        self.policies: Mapping[int, str | None] = {}
        self._lookups: set[int] = set()
        self._known: dict[object, Need] = {}
        self._needs: dict[Call, Need] = {}
        self._of_layer: dict[int, Need] = {}
        self._raw = {id(value) for value in tree.flatten(model.arguments)}

    def add_all(self) -> None:
        """Measures every piece, until none asks for more."""
        everything = replace(self.found, lookups_in_16_bits=set(self.model.nodes))
        now, other = self.wanted(self.found), self.wanted(everything)
        # Layers that are float32 because a lookup gains nothing.
        self._lookups = {key for key in self.model.nodes if now.get(key) != other.get(key)}
        for _ in range(_ROUNDS):
            before = self.found.size()
            self.policies = self.wanted(self.found)
            with self.model.in_float32():
                for call in self.model.measured_calls():
                    need = self._needs[call] = self._need(call)
                    self._of_layer[id(call.node.layer)] = need
                    self._apply(call, need)
            if self.in_range and any(need.steep for need in self._needs.values()):
                self._add_reached_by_zeros()
            if self.found.size() == before:
                return

    def _need(self, call: Call) -> Need:
        piece = self.model.piece(call)
        setting = self._setting(call, piece)
        again = call in self._needs
        flags = tuple((one.is_bounded, one.is_raw) for one in setting.given)
        plan = (tuple(setting.dtypes), tuple(setting.lookups), setting.own, again)
        key = (piece.key(), flags, plan)
        if key not in self._known:
            self._known[key] = Need()
            with suppress(Exception):  # it may run within its model only
                measurement = Measurement(piece, setting)
                self._known[key] = measurement.need
                measurement.run(adds_float32=self.is_mixed)
                if self.in_range and not again:
                    measurement.measure()
                self._note_promotion(measurement)
        return self._known[key]

    def _setting(self, call: Call, piece: Piece) -> Setting:
        given, dtypes, lookups = [], [], []
        for index, (value, source) in enumerate(zip(piece.inputs, piece.sources, strict=True)):
            maker = self.model.makers.get(id(value)) if source is None else call.inner[source]
            given.append(self._drawn(value, maker, index))
            dtypes.append(self._dtype(value, maker))
            key = id(maker.node.layer) if maker is not None else 0
            lookups.append(key in self._lookups and dtypes[-1] == "float32")
        own = self._is_wide(id(call.node.layer))
        set_policies = partial(self._set_policies, call.node)
        return Setting(given, dtypes, lookups, own, self.dtype, set_policies)

    def _drawn(self, value: Tensor, maker: Call | None, seed: int) -> Given:
        is_known = maker is None or maker.is_concrete
        seen = np.asarray(ops.convert_to_numpy(value), "float32") if is_known else None
        is_bounded = maker is not None and self._is_bounded(maker)
        return drawn(seen, tuple(value.shape), seed, is_bounded, id(value) in self._raw)

    def _is_bounded(self, call: Call) -> bool:
        layer = call.node.layer
        if only_moves_values(layer) and call.arguments():
            makers = [self.model.makers.get(id(value)) for value in call.arguments()]
            return all(one is not None and self._is_bounded(one) for one in makers)
        if id(layer) in self._of_layer:
            return self._of_layer[id(layer)].bounded
        return isinstance(layer, layers.Softmax) or getattr(layer, "activation", 0) in _BOUNDED

    def _dtype(self, value: Tensor, maker: Call | None) -> str:
        """The dtype in which a piece gets a float under the plan."""
        if maker is None:
            return "float32" if id(value) in self._raw else self.dtype
        layer = maker.node.layer
        need = self._of_layer.get(id(layer))
        index = [id(one) for one in maker.results()].index(id(value))
        if need is not None and index < len(need.dtypes):
            return need.dtypes[index]
        keys = self.model.ends(maker) if is_graph(layer) else {id(layer)}
        return "float32" if all(map(self._is_wide, keys)) else self.dtype

    def _is_wide(self, key: int) -> bool:
        policy = self.policies.get(key)
        return policy is None or policy_named(policy).compute_dtype == "float32"

    def _set_policies(self, node: LayerNode, own: bool, inner: bool) -> None:
        """Makes a piece, or the layers that it calls, float32; others have what is planned."""
        unit = {id(part.layer) for part in node.unit()}
        for part in node.within():
            planned = self.policies.get(id(part.layer))
            is_wide = own if id(part.layer) in unit else inner
            if planned is not None:
                part.layer._dtype_policy = policy_named("float32" if is_wide else planned)

    def _apply(self, call: Call, need: Need) -> None:
        """Adds what a piece needs to the evidence."""
        where, model = describe(call.node.path), self.model
        own = {id(part.layer) for part in call.node.unit()}
        for part, reason in need.parts.items():
            keys = own if part == OWN else model.ends(call.inner[part])
            is_whole = part == OWN or reason.startswith(FAILED_DRY_RUN)
            self._keep(keys, reason if is_whole else f"feeds {where}, which {reason}")
        if need.arguments:
            self._keep(model.feeders(call), f"feeds {where}, which {need.arguments}")
        for place, reason in need.readers.items():
            reads = model.readers(call) if place is None else model.reading(call.inner[place])
            self._keep(reads, f"reads numbers of {where}, {reason}")
        if need.promoted is not None:
            self.found.promoted.setdefault(id(call.node.layer), need.promoted)
        if need.lookups:
            called = {id(inner.node.layer) for inner in call.inner}
            self.found.lookups_in_16_bits |= called & self._lookups

    def _keep(self, keys: Iterable[int], reason: str) -> None:
        for key in keys:
            self.found.measured.setdefault(key, reason)

    def _add_reached_by_zeros(self) -> None:
        """Adds the layers that get too large gradients through others, in rows of zeros.

        `x / (norm(x) + 1e-8)` multiplies the gradients of rows of zeros by 1e8. The layer before it
        hands them on, as far back as rows of zeros stay zeros.
        """
        for call, slope in self.model.slopes_at_zeros():
            largest = float(np.abs(slope[np.isfinite(slope)]).max(initial=0.0))
            if largest >= FLOAT16.overflow_threshold:
                reason = (
                    f"gets gradients up to {largest:.1g}, infinite in float16, on rows of zeros"
                )
                self._keep((id(part.layer) for part in call.node.unit()), reason)

    def _note_promotion(self, measurement: Measurement) -> None:
        """Notes own code that multiplies in float32 although it gets 16 bits, with its line."""
        piece, need = measurement.piece, measurement.need
        has_kernel = any(len(one.shape) > 1 and one.trainable for one in piece.weights)
        pairs = zip(measurement.setting.dtypes, piece.sources, strict=True)
        is_narrow = all(dtype != "float32" for dtype, source in pairs if source is not None)
        is_own_wide = measurement.setting.own or OWN in need.parts
        if has_kernel and is_narrow and not is_own_wide and "float32" in need.dtypes:
            need.promoted = promoting_line(measurement.run_narrow)
