"""Inputs that 16 bits cannot hold, too large or too close together, and the layers that read them.

The numbers of the first batches are followed in float32, from the data through the layers that
compute in float32 to those that read them in 16 bits. Of these, the layers that would overflow or
round off differences go to float32 before the first step. So do layers with weights past 65504.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops, tree

from tfmp.fit.nonfinite_watch import locate_in, move_to_float32
from tfmp.nonfinite import Call, NonFinite, RoundedOff, replay, rounded_off
from tfmp.precision import (
    NARROW_DTYPES,
    LayerNode,
    PrecisionPlan,
    is_graph,
    layer_tree,
    reverting,
)
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.numerics import BFLOAT16, FLOAT16
from tfmp.shared.wording import listed

_FORMATS = {fmt.name: fmt for fmt in (FLOAT16, BFLOAT16)}

_SCALE_DATA = (
    "Scale the data, or put a Rescaling or Normalization layer first: they stay in float32"
)

# Sums of 32 such numbers are past 65504.
_LARGE_IN_SUMS = 2048.0


@dataclass(frozen=True)
class Reader:
    """A layer that reads numbers of the data in 16 bits.

    Attributes:
        node: the layer.
        dtype: the dtype that it reads in.
        values: the numbers.
        lost: the feature that loses most differences; None if none does.
    """

    node: LayerNode
    dtype: str
    values: np.ndarray
    lost: RoundedOff | None

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return _largest_magnitude(self.values)

    @property
    def overflows(self) -> bool:
        """Whether a number is infinite in its dtype."""
        return self.dtype == "float16" and self.largest >= FLOAT16.overflow_threshold


def widen_readers(model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]) -> list[str]:
    """Moves layers to float32 that lose numbers of the data, and that overflow behind them.

    Args:
        model: the model with the plan applied, between two steps.
        plan: the applied plan.
        batches: the batches as `fit` has them.

    Returns:
        A note for each reason. The model's functions have to be traced anew if there is one.

    Raises:
        ValueError: a step on these batches is finite in float32, but not with these layers moved.
    """
    readers = read_in_16_bits(model, plan, batches)
    past = [one for one in readers if one.overflows]
    coarse = [one for one in readers if one.lost and not one.overflows]
    moved = [one.node for one in past]
    reason = fix = ""
    if "float16" in plan.narrow_dtypes:
        reason, fix = _overflow_ahead(model, batches, readers)
        heavy = _with_large_weights(layer_tree.walk(model))
        if heavy and not past:
            reason, fix = "Weights are past 65504", ""
        for node in heavy:
            _move_unit(model, node)
        moved += heavy
    names = [layer_tree.describe(node.path) for node in moved]
    if reason:
        names += _widen_behind(model, batches, past)
    notes = [_note(reason, names, fix)] if names else []
    if coarse:
        paths = [layer_tree.describe(one.node.path) for one in coarse]
        notes.append(_note(*_lost_differences(model, batches, coarse[0], paths)))
    return notes


def _note(reason: str, names: list[str], fix: str) -> str:
    moved = listed(list(dict.fromkeys(names)), 5)
    return f"{reason}. Moved to float32 before the first step: {moved}.{fix and ' '}{fix}"


def _overflow_ahead(
    model: keras.Model, batches: list[TensorTree], readers: list[Reader]
) -> tuple[str, str]:
    """Why the first step may overflow in float16, and a remedy; empty without such a reason."""
    half = [one for one in readers if one.dtype == "float16" and one.largest >= _LARGE_IN_SUMS]
    worst = next((one for one in half if one.overflows), half[0] if half else None)
    if worst is None:
        return "", ""
    source = _source(model, batches, worst)
    reaches = f"{source[0].upper()}{source[1:]} reaches {worst.largest:g}"
    if worst.overflows:
        return f"{reaches}, past 65504", f"{_SCALE_DATA}."
    return f"{reaches}, and sums of such numbers are past 65504", ""


def _lost_differences(
    model: keras.Model, batches: list[TensorTree], first: Reader, paths: list[str]
) -> tuple[str, list[str], str]:
    """Why layers lose differences, their names, and a remedy."""
    lost = first.lost
    assert lost is not None
    source = _source(model, batches, first)
    which = f"{source[0].upper()}{source[1:]}"
    if lost.feature is not None:
        which = f"Feature {lost.feature} of {source}"
    holds = f"is around {lost.size:.6g} and varies by {lost.spread:.3g}"
    fix = "subtract the mean from the data, or put a Normalization layer first"
    if lost.is_whole:
        holds = f"holds whole numbers around {lost.size:.6g}"
        fix = "give ids as integers, keras.Input(shape, dtype='int32'), or scale quantities"
    reason = f"{which} {holds}, where the numbers of {first.dtype} are {lost.spacing:.3g} apart"
    return reason, paths, f"To keep 16 bits, {fix}."


def _source(model: keras.Model, batches: list[TensorTree], reader: Reader) -> str:
    """The input of the model that a reader reads unchanged, or its own."""
    for name, value in _float_inputs(model, batches):
        if np.array_equal(_array(value).ravel(), reader.values.ravel(), equal_nan=True):
            return f"input {name}"
    return f"the input of {layer_tree.describe(reader.node.path)}"


# --- the layers that read the data ---


def read_in_16_bits(
    model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]
) -> list[Reader]:
    """The layers that read numbers of the data in 16 bits; those that lose some are moved.

    Batches are replayed if their numbers are suspicious, or if preprocessing changes them first.
    """
    formats = [_FORMATS[dtype] for dtype in plan.narrow_dtypes]

    def is_large(value: Tensor) -> bool:
        largest = _largest_magnitude(current_backend().stored(value))
        return "float16" in plan.narrow_dtypes and largest >= _LARGE_IN_SUMS

    def is_suspicious(value: Tensor) -> bool:
        return is_large(value) or any(rounded_off(_array(value), fmt) for fmt in formats)

    found: list[Reader] = []
    for place, batch in enumerate(batches):
        watch = _DataWatch(model, found, is_suspicious)
        judge = is_large if place else is_suspicious
        watch.is_suspicious = any(judge(value) for _, value in _float_inputs(model, [batch]))
        if not watch.is_suspicious and (place or not watch.pending):
            continue
        # What cannot be replayed, as without a loss, has called its first layers before it fails.
        with suppress(Exception, _AllSeen):
            x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
            replay.run(replay.make_step(model, x, y, weight), watch.see)
    return found


class _AllSeen(BaseException):
    """Ends a forward pass; Keras replaces an `Exception` in every layer."""


class _DataWatch:
    """Follows the data in float32, from layer to layer, to those that read them in 16 bits.

    A layer that loses some is moved and called again: layers behind it may lose them too.

    Attributes:
        pending: the ids of the preprocessing layers that were not called yet.
        is_suspicious: whether the data or a result of preprocessing is.
    """

    def __init__(
        self, model: keras.Model, found: list[Reader], judge: Callable[[Tensor], bool]
    ) -> None:
        self._model = model
        self._found = found
        self._judge = judge
        self.pending = {
            id(node.layer)
            for node in layer_tree.walk(model).within()
            if layer_tree.is_preprocessing(node.layer) and node.layer.compute_dtype == "float32"
        }
        self.is_suspicious = False
        # Results of layers that were given no numbers in float32, by their ids: they are not
        # computed from the data alone. The tensors are kept, so that no other one gets an id.
        self._settled: dict[int, Tensor] = {}

    def see(self, call: Call) -> TensorTree:
        raw = [one for one in call.float_inputs() if self._is_raw(one)]
        if id(call.node.layer) in self.pending:
            self.pending.discard(id(call.node.layer))
            results = filter(current_backend().is_concrete, call.float_outputs())
            self.is_suspicious |= any(map(self._judge, results))
        elif not raw:
            self._settled |= {id(one): one for one in call.float_outputs()}
        if not self.is_suspicious and not self.pending:
            raise _AllSeen
        if not any(self._reads(call, _array(values)) for values in raw):
            return call.outputs
        _move_unit(self._model, call.node.head or call.node)
        return call.node.layer(*call.args, **call.kwargs)

    def _is_raw(self, tensor: Tensor) -> bool:
        is_wide = keras.backend.standardize_dtype(tensor.dtype) not in NARROW_DTYPES
        is_concrete = current_backend().is_concrete(current_backend().stored(tensor))
        return is_wide and is_concrete and id(tensor) not in self._settled

    def _reads(self, call: Call, values: np.ndarray) -> bool:
        """Notes a layer that reads numbers in 16 bits; whether it loses some."""
        layer = call.node.layer
        dtype = layer.input_dtype
        if dtype not in _FORMATS or not layer.autocast or is_graph(layer):
            return False
        lost = rounded_off(values, _FORMATS[dtype])
        self._found.append(Reader(call.node.head or call.node, dtype, values, lost))
        return self._found[-1].overflows or lost is not None


# --- what overflows behind them ---


def _widen_behind(model: keras.Model, batches: list[TensorTree], past: list[Reader]) -> list[str]:
    """Moves the layers that overflow in a step on these batches; their names."""
    is_own = not type(model).train_step.__module__.startswith("keras.")
    if is_own and layer_tree.has_call(model):
        return []  # its own step may do more with the inputs than call the model
    moved: list[str] = []
    while (found := _replayed(model, batches)) and found.cause == "overflow":
        path = move_to_float32(model, found)
        if path is None:
            break
        moved.append(layer_tree.describe(path))
    if past and found and found.stage in ("forward", "loss"):
        _refuse_what_float32_trains(model, batches, past, found)
    return moved


def _refuse_what_float32_trains(
    model: keras.Model, batches: list[TensorTree], past: list[Reader], found: NonFinite
) -> None:
    with replay.in_float32(list(layer_tree.walk(model).within())):
        exact = _replayed(model, batches)
    if exact and exact.stage in ("data", "weights", "forward", "loss"):
        return
    worst = max(past, key=lambda one: one.largest)
    source = _source(model, batches, worst)
    raise ValueError(
        "Training stopped before its first step; no weight has changed. "
        f"{source[0].upper()}{source[1:]} reaches {worst.largest:g}, FP16 ends at 65504, and no "
        f"step would be finite: {found.what}. {_SCALE_DATA}. MixedPrecision('mixed_bfloat16') has "
        "float32's range."
    )


def _replayed(model: keras.Model, batches: list[TensorTree]) -> NonFinite | None:
    """The first non-finite value of a step; None if all are finite or it cannot be replayed."""
    try:
        return locate_in(model, batches, loss_scale=1.0)[0]
    except Exception:
        return None  # a model without a loss, for example: `fit` says it better


def _move_unit(model: keras.Model, node: LayerNode) -> None:
    parts = [part.layer for part in node.unit() if part.layer.compute_dtype in NARROW_DTYPES]
    if parts:
        reverting.move_to_float32(model, parts)


def _with_large_weights(root: LayerNode) -> list[LayerNode]:
    """The layers that would read weights as infinite: those past 65504, in float16."""
    return [
        node.head or node
        for node in root.within()
        if node.layer.compute_dtype == "float16"
        and any(
            variable._autocast
            and is_float(variable)
            and _largest_magnitude(variable.value) >= FLOAT16.overflow_threshold
            for variable in (*node.layer._trainable_variables, *node.layer._non_trainable_variables)
        )
    ]


# --- numbers ---


def is_float(value: Tensor | None) -> bool:
    """Whether an entry of a batch holds floating-point numbers."""
    return value is not None and "float" in keras.backend.standardize_dtype(value.dtype)


def _float_inputs(model: keras.Model, batches: list[TensorTree]) -> Iterator[tuple[str, Tensor]]:
    """The inputs that a model takes as floating-point numbers, by name.

    A graph casts whole numbers to the dtype of its input.
    """
    for batch in batches:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        leaves = tree.flatten_with_path(x)
        specs = model.inputs if is_graph(model) and len(model.inputs) == len(leaves) else []
        by_name = {spec.name: spec for spec in specs}
        for place, (path, value) in enumerate(leaves):
            spec = by_name.get(str(path[-1]) if path else "", specs[place] if specs else value)
            if is_float(value) or (_is_whole(value) and is_float(spec)):
                yield ".".join(map(str, path)) or "x", value


def _is_whole(value: Tensor | None) -> bool:
    return value is not None and "int" in keras.backend.standardize_dtype(value.dtype)


def _array(value: Tensor) -> np.ndarray:
    """The numbers of a dense tensor, or those that a sparse or ragged one stores."""
    return np.asarray(ops.convert_to_numpy(current_backend().stored(value)), np.float64)


def _largest_magnitude(values: Tensor | np.ndarray) -> float:
    values = np.asarray(ops.convert_to_numpy(values))
    return float(max(values.max(), -values.min())) if values.size else 0.0
