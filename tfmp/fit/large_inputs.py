"""Inputs that 16 bits cannot hold, too large or too close together, and the layers that read them.

These layers go to float32 before the first step. So do layers with weights past 65504.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops, tree

from tfmp.fit.nonfinite_watch import locate_in, move_to_float32
from tfmp.nonfinite import (
    Call,
    NonFinite,
    RoundedOff,
    replay,
    rounded_off,
    stored_values,
)
from tfmp.precision import (
    NARROW_DTYPES,
    LayerNode,
    PrecisionPlan,
    is_graph,
    layer_tree,
    reverting,
)
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.numerics import BFLOAT16, FLOAT16

_FORMATS = {fmt.name: fmt for fmt in (FLOAT16, BFLOAT16)}

_SCALE_DATA = (
    "Scale the data, or put a Rescaling or Normalization layer first: they stay in float32"
)

# Sums of 32 such numbers are past 65504.
_LARGE_IN_SUMS = 2048.0


def overflow_ahead(
    model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]
) -> tuple[str, str] | None:
    """Why the first step may overflow in float16, and a remedy; None without such a reason.

    Args:
        model: the model with the plan applied.
        plan: the applied plan.
        batches: the batches as `fit` has them.
    """
    if "float16" not in plan.narrow_dtypes:
        return None
    root = layer_tree.walk(model)
    if _with_large_weights(root):
        return "Weights are past 65504", ""
    large = _reaching(model, batches, _LARGE_IN_SUMS)
    has_code = any(layer_tree.operations_of(node.layer) for node in root.within())
    # Code between the inputs and the first layer may hand large values on.
    if large and (_float16_readers(root, plan) or not is_graph(root.layer) or has_code):
        name, largest = max(large.items(), key=lambda item: item[1])
        of = f"Input {name}"
    else:
        of, largest = _handed_on(model, root, batches[0])
    if largest < _LARGE_IN_SUMS:
        return None
    if largest >= FLOAT16.overflow_threshold:
        return f"{of} reaches {largest:g}, past 65504", f" {_SCALE_DATA}."
    return f"{of} reaches {largest:g}, and sums of such numbers are past 65504", ""


class _AllSeen(BaseException):
    """Ends a forward pass; Keras replaces an `Exception` in every layer."""


def _handed_on(model: keras.Model, root: LayerNode, batch: TensorTree) -> tuple[str, float]:
    """The largest number that preprocessing, which is float32 by rule, makes of a batch."""
    pending = {id(node.layer) for node in root.within() if layer_tree.is_preprocessing(node.layer)}
    found = {"": 0.0}

    def see(call: Call) -> TensorTree:
        if id(call.node.layer) in pending and call.node.layer.compute_dtype == "float32":
            values = map(_largest_magnitude, filter(replay.is_concrete, call.float_outputs()))
            found[f"The result of {call.node.path}"] = max(values, default=0.0)
        pending.discard(id(call.node.layer))
        if not pending:
            raise _AllSeen
        return call.outputs

    # What fails later, such as a model without a loss, has called its first layers.
    with suppress(Exception, _AllSeen):
        if pending:
            x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
            replay.run(replay.make_step(model, x, y, weight), see)
    return max(found.items(), key=lambda item: item[1])


def widen_readers(
    model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]
) -> tuple[str, ...]:
    """Moves the layers to float32 that read large inputs, and those that overflow behind them.

    Args:
        model: the model with the plan applied, between two steps.
        plan: the applied plan.
        batches: batches with large inputs, or for a model with large weights.

    Returns:
        The paths of the moved layers. The model's functions have to be traced anew.

    Raises:
        ValueError: a step on these batches is finite in float32, but not with these layers moved.
    """
    root = layer_tree.walk(model)
    past = _past_65504(model, batches)
    units = [*(_float16_readers(root, plan) if past else ()), *_with_large_weights(root)]
    moved = list(dict.fromkeys(layer_tree.describe(node.path) for node in units))
    for node in units:
        _move_unit(model, node)
    is_own = not type(model).train_step.__module__.startswith("keras.")
    if is_own and layer_tree.has_call(model):
        return tuple(moved)  # its own step may do more with the inputs than call the model
    while (found := _replayed(model, batches)) and found.cause == "overflow":
        path = move_to_float32(model, found)
        if path is None:
            break
        moved.append(path)
    if past and found and found.stage in ("forward", "loss"):
        _refuse_what_float32_trains(model, batches, found)
    return tuple(moved)


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


def _replayed(model: keras.Model, batches: list[TensorTree]) -> NonFinite | None:
    """The first non-finite value of a step; None if all are finite or it cannot be replayed."""
    try:
        return locate_in(model, batches, loss_scale=1.0)[0]
    except Exception:
        return None  # a model without a loss, for example: `fit` says it better


def _refuse_what_float32_trains(
    model: keras.Model, batches: list[TensorTree], found: NonFinite
) -> None:
    with replay.in_float32(list(layer_tree.walk(model).within())):
        exact = _replayed(model, batches)
    if exact and exact.stage in ("data", "weights", "forward", "loss"):
        return
    name, reached = max(_past_65504(model, batches).items(), key=lambda item: item[1])
    raise ValueError(
        f"Training stopped before its first step; no weight has changed. Input {name} "
        f"reaches {reached:g}, FP16 ends at 65504, and no step would be finite: {found.what}. "
        f"{_SCALE_DATA}. MixedPrecision('mixed_bfloat16') has float32's range."
    )


def is_float(value: Tensor | None) -> bool:
    """Whether an entry of a batch holds floating-point numbers."""
    return value is not None and "float" in keras.backend.standardize_dtype(value.dtype)


def _past_65504(model: keras.Model, batches: list[TensorTree]) -> dict[str, float]:
    """The inputs past FP16's largest number, by name, with their largest magnitude."""
    return _reaching(model, batches, FLOAT16.overflow_threshold)


def _reaching(model: keras.Model, batches: list[TensorTree], bound: float) -> dict[str, float]:
    """The inputs that reach a bound, by name, with their largest magnitude."""
    found: dict[str, float] = {}
    for name, value in _float_inputs(model, batches):
        largest = _largest_magnitude(value)
        if largest >= bound:
            found[name] = max(largest, found.get(name, 0.0))
    return found


def _float_inputs(model: keras.Model, batches: list[TensorTree]) -> Iterator[tuple[str, Tensor]]:
    """The inputs that a model takes as floating-point numbers, by name."""
    for batch in batches:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        leaves = tree.flatten_with_path(x)
        for (path, value), as_float in zip(leaves, _taken_as_floats(model, leaves), strict=True):
            if as_float and value is not None:
                yield ".".join(map(str, path)) or "x", value


def _taken_as_floats(
    model: keras.Model, leaves: list[tuple[tuple[str | int, ...], Tensor | None]]
) -> list[bool]:
    """Which entries of a batch are floating-point numbers, or whole ones that a graph casts."""
    specs = model.inputs if is_graph(model) and len(model.inputs) == len(leaves) else []
    by_name = {spec.name: spec for spec in specs}
    found = []
    for place, (path, value) in enumerate(leaves):
        spec = by_name.get(str(path[-1]) if path else "", specs[place] if specs else value)
        found.append(is_float(value) or (_is_number(value) and is_float(spec)))
    return found


def _is_number(value: Tensor | None) -> bool:
    return value is not None and "int" in keras.backend.standardize_dtype(value.dtype)


def _largest_magnitude(value: Tensor) -> float:
    values = ops.convert_to_numpy(stored_values(value))
    return float(max(values.max(), -values.min())) if values.size else 0.0


def _float16_readers(root: LayerNode, plan: PrecisionPlan) -> list[LayerNode]:
    """The float16 layers that read a model's inputs directly."""
    computes_in = {row.path: row.compute_dtype for row in plan.rows}
    if not is_graph(root.layer):
        # A model with code of its own casts its inputs before any layer sees them.
        return [root] if computes_in[root.path] == "float16" else []
    inputs = {id(tensor) for tensor in root.layer.inputs}
    readers = []
    for child in root.children:
        calls = child.layer._inbound_nodes
        if not any(id(tensor) in inputs for call in calls for tensor in call.input_tensors):
            continue
        if is_graph(child.layer):
            readers += _float16_readers(child, plan)
        elif computes_in[child.path] == "float16":
            readers.append(child)
    return readers


@dataclass(frozen=True)
class CoarseReader:
    """A layer that rounds off differences between the numbers that it reads.

    Attributes:
        node: the layer.
        dtype: the dtype that it reads in.
        values: the numbers.
        lost: the feature that loses most.
    """

    node: LayerNode
    dtype: str
    values: np.ndarray
    lost: RoundedOff


def coarse_readers(
    model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]
) -> list[CoarseReader]:
    """The layers that round off differences of the inputs, or of what is computed from them.

    Args:
        model: the model with the plan applied, between two steps.
        plan: the applied plan.
        batches: the batches as `fit` has them; the first one is replayed if it is suspicious.
    """
    inputs = [_array(value) for _, value in _float_inputs(model, batches[:1])]
    if not any(
        rounded_off(values, _FORMATS[dtype]) for values in inputs for dtype in plan.narrow_dtypes
    ):
        return []
    watch = _CoarseWatch()
    # What cannot be replayed, such as a model without a loss, may have been called before it fails.
    with suppress(Exception):
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batches[0])
        replay.run(replay.make_step(model, x, y, weight), watch.see)
    return watch.found


class _CoarseWatch:
    """Follows the inputs in float32, from layer to layer, to those that read them in 16 bits.

    A layer that loses differences is called again in float32: layers behind it may lose them too.
    """

    def __init__(self) -> None:
        self.found: list[CoarseReader] = []
        # Results of layers that were given no numbers in float32, by their ids: they are not
        # computed from the inputs alone. The tensors are kept, so that no other one gets an id.
        self._settled: dict[int, Tensor] = {}

    def see(self, call: Call) -> TensorTree:
        raw = [one for one in call.float_inputs() if self._is_raw(one)]
        if not raw:
            self._settled |= {id(one): one for one in call.float_outputs()}
            return call.outputs
        lost = self._lost(call, raw)
        if lost is None:
            return call.outputs
        self.found.append(lost)
        with replay.in_float32(lost.node.unit()):
            return call.node.layer(*call.args, **call.kwargs)

    def _is_raw(self, tensor: Tensor) -> bool:
        is_wide = keras.backend.standardize_dtype(tensor.dtype) not in NARROW_DTYPES
        return is_wide and replay.is_concrete(tensor) and id(tensor) not in self._settled

    def _lost(self, call: Call, raw: list[Tensor]) -> CoarseReader | None:
        layer = call.node.layer
        dtype = layer.input_dtype
        if dtype not in _FORMATS or not layer.autocast or is_graph(layer):
            return None
        for values in map(_array, raw):
            lost = rounded_off(values, _FORMATS[dtype])
            if lost is not None:
                return CoarseReader(call.node.head or call.node, dtype, values, lost)
        return None


def widen_coarse_readers(
    model: keras.Model, batches: list[TensorTree], readers: list[CoarseReader]
) -> tuple[str, str]:
    """Moves layers to float32 that round off differences; the first one's reason, and a remedy.

    The model's functions have to be traced anew.
    """
    for reader in readers:
        _move_unit(model, reader.node)
    first = readers[0]
    names = [
        name
        for name, value in _float_inputs(model, batches[:1])
        if np.array_equal(_array(value).ravel(), first.values.ravel(), equal_nan=True)
    ]
    where = layer_tree.describe(first.node.path)
    of = f"input {names[0]}" if names else f"the numbers that reach {where}"
    lost = first.lost
    which = (
        f"Feature {lost.feature} of {of}" if lost.feature is not None else of[0].upper() + of[1:]
    )
    holds = f"is around {lost.size:.6g} and varies by {lost.spread:.3g}"
    fix = "subtract the mean from the data, or put a Normalization layer first"
    if lost.is_whole:
        holds = f"holds whole numbers around {lost.size:.6g}"
        fix = "give ids as integers, keras.Input(shape, dtype='int32'), or scale quantities"
    reason = f"{which} {holds}, where the numbers of {first.dtype} are {lost.spacing:.3g} apart"
    return reason, f" To keep 16 bits, {fix}."


def _array(value: Tensor) -> np.ndarray:
    """The numbers of a dense tensor; none of a sparse or ragged one."""
    dense = stored_values(value) is value
    return np.asarray(ops.convert_to_numpy(value), np.float64) if dense else np.zeros((0, 1))
