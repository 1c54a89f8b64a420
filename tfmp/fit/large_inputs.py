"""Inputs that 16 bits cannot hold, too large or too close together, and the layers that read them.

The numbers of the first batch are followed in float32, from the data through the layers that
compute in float32 to those that read them in 16 bits. Of these, the layers that would read
infinities or round off differences go to float32 before the first step. Layers whose sums overflow
go there when the first step is skipped.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops, tree

from tfmp.nonfinite import Call, RoundedOff, is_float, replay, rounded_off
from tfmp.precision import (
    NARROW_DTYPES,
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
    "Scale the data, or put a Rescaling or Normalization layer first: they stay in float32."
)


@dataclass(frozen=True)
class Reader:
    """A layer that reads numbers of the data in 16 bits.

    Attributes:
        name: the layer, for a person.
        source: the input of the model that it reads unchanged, or its own.
        dtype: the dtype that it reads in.
        largest: the largest magnitude of the numbers.
        lost: the feature that loses most differences; None if none does.
    """

    name: str
    source: str
    dtype: str
    largest: float
    lost: RoundedOff | None

    @property
    def overflows(self) -> bool:
        """Whether a number is infinite in its dtype."""
        return self.dtype == "float16" and self.largest >= FLOAT16.overflow_threshold


def widen_readers(model: keras.Model, plan: PrecisionPlan, batch: TensorTree) -> list[str]:
    """Moves layers to float32 that lose numbers of the data.

    Args:
        model: the model with the plan applied, between two steps.
        plan: the applied plan.
        batch: the first batch, as `fit` has it.

    Returns:
        A note for each reason. The model's functions have to be traced anew if there is one.
    """
    readers = _read_in_16_bits(model, plan, batch)
    notes = []
    if past := [one for one in readers if one.overflows]:
        reason = f"{_capital(past[0].source)} reaches {past[0].largest:g}, past 65504"
        notes.append(_note(reason, past, _SCALE_DATA))
    if coarse := [one for one in readers if one.lost and not one.overflows]:
        notes.append(_lost_differences(coarse))
    return notes


def _note(reason: str, readers: list[Reader], fix: str) -> str:
    moved = listed(list(dict.fromkeys(one.name for one in readers)), 5)
    return f"{reason}. Moved to float32 before the first step: {moved}. {fix}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _lost_differences(coarse: list[Reader]) -> str:
    """Why layers lose differences, their names, and a remedy."""
    first, lost = coarse[0], coarse[0].lost
    assert lost is not None
    which = first.source if lost.feature is None else f"feature {lost.feature} of {first.source}"
    holds = f"is around {lost.size:.6g} and varies by {lost.spread:.3g}"
    fix = "subtract the mean from the data, or put a Normalization layer first"
    apart = f"where the numbers of {first.dtype} are {lost.spacing:.3g} apart"
    return _note(f"{_capital(which)} {holds}, {apart}", coarse, f"To keep 16 bits, {fix}.")


# --- the layers that read the data ---


def _read_in_16_bits(model: keras.Model, plan: PrecisionPlan, batch: TensorTree) -> list[Reader]:
    """The layers that read numbers of the data in 16 bits; those that lose some are moved.

    The batch is replayed if its numbers are suspicious, or if preprocessing changes them first.
    """
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    watch = _DataWatch(model, plan, x)
    if watch.is_suspicious or watch.pending:
        # What cannot be replayed, as without a loss, has called its first layers before it fails.
        with suppress(Exception, _AllSeen):
            replay.run(replay.make_step(model, x, y, weight), watch.see)
    return watch.readers


class _AllSeen(BaseException):
    """Ends a forward pass; Keras replaces an `Exception` in every layer."""


class _DataWatch:
    """Follows the data in float32, from layer to layer, to those that read them in 16 bits.

    A layer that loses some is moved and called again: layers behind it may lose them too.

    Attributes:
        readers: the layers that read numbers in 16 bits.
        pending: the ids of the preprocessing layers that were not called yet.
        is_suspicious: whether 16 bits may lose the data or a result of preprocessing.
    """

    def __init__(self, model: keras.Model, plan: PrecisionPlan, x: TensorTree) -> None:
        self._model = model
        self._dtypes = plan.narrow_dtypes
        self._inputs = [(name, _numbers(value)) for name, value in _float_inputs(model, x)]
        self.readers: list[Reader] = []
        self.pending = {
            id(node.layer)
            for node in layer_tree.walk(model).within()
            if layer_tree.is_preprocessing(node.layer) and node.layer.compute_dtype == "float32"
        }
        self.is_suspicious = any(self._loses(numbers) for _, numbers in self._inputs)
        # Results of layers that were given no numbers in float32, by their ids: they are not
        # computed from the data alone. The tensors are kept, so that no other one gets an id.
        self._settled: dict[int, Tensor] = {}

    def _loses(self, numbers: np.ndarray) -> bool:
        """Whether one of the plan's dtypes may lose some."""
        readers = [self._reader("", dtype, numbers) for dtype in self._dtypes]
        return any(one.overflows or one.lost for one in readers)

    def _reader(self, name: str, dtype: str, numbers: np.ndarray) -> Reader:
        sources = (
            f"input {given}"
            for given, values in self._inputs
            if np.array_equal(values.ravel(), numbers.ravel(), equal_nan=True)
        )
        source = next(sources, f"the input of {name}")
        largest = float(np.abs(numbers).max(initial=0.0))
        return Reader(name, source, dtype, largest, rounded_off(numbers, _FORMATS[dtype]))

    def see(self, call: Call) -> TensorTree:
        raw = [one for one in call.float_inputs() if self._is_raw(one)]
        if id(call.node.layer) in self.pending:
            self.pending.discard(id(call.node.layer))
            results = filter(current_backend().is_concrete, call.float_outputs())
            self.is_suspicious |= any(self._loses(_numbers(one)) for one in results)
        elif not raw:
            self._settled |= {id(one): one for one in call.float_outputs()}
        if not self.is_suspicious and not self.pending:
            raise _AllSeen
        layer, node = call.node.layer, call.node.head or call.node
        if not layer.autocast or is_graph(layer) or layer.input_dtype not in _FORMATS:
            return call.outputs
        name = layer_tree.describe(node.path)
        seen = [self._reader(name, layer.input_dtype, _numbers(one)) for one in raw]
        self.readers += seen
        if not any(one.overflows or one.lost for one in seen):
            return call.outputs
        parts = [part.layer for part in node.unit() if part.layer.compute_dtype in NARROW_DTYPES]
        if parts:
            reverting.move_to_float32(self._model, parts)
        return layer(*call.args, **call.kwargs)

    def _is_raw(self, tensor: Tensor) -> bool:
        is_wide = keras.backend.standardize_dtype(tensor.dtype) not in NARROW_DTYPES
        is_concrete = current_backend().is_concrete(current_backend().stored(tensor))
        return is_wide and is_concrete and id(tensor) not in self._settled


def _numbers(value: Tensor) -> np.ndarray:
    """The numbers of a dense tensor, or those that a sparse or ragged one stores."""
    return np.asarray(ops.convert_to_numpy(current_backend().stored(value)), np.float64)


def _float_inputs(model: keras.Model, x: TensorTree) -> Iterator[tuple[str, Tensor]]:
    """The inputs that a model takes as floating-point numbers, by name.

    A graph casts whole numbers to the dtype of its input.
    """
    leaves = tree.flatten_with_path(x)
    specs = model.inputs if is_graph(model) and len(model.inputs) == len(leaves) else []
    by_name = {spec.name: spec for spec in specs}
    for place, (path, value) in enumerate(leaves):
        spec = by_name.get(str(path[-1]) if path else "", specs[place] if specs else value)
        if is_float(value) or (value is not None and "int" in str(value.dtype) and is_float(spec)):
            yield ".".join(map(str, path)) or "x", value
