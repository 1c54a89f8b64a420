"""The cost of each layer: its compiled forward and backward pass, on the shapes that it gets.

A layer is called as the model calls it, with inputs of the same shapes and dtypes, and the
gradients of the sum of its outputs are taken for its weights and its inputs. The cost of a call
that computes nothing is subtracted. Layers with the same configuration and shapes are measured
once. The sum differs from the time of a step, because compilers fuse across layers, and because of
the loss and the optimizer.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import keras
import numpy as np
from keras import ops, tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

from tfmp.machine import Mark, devices, interleaved, timed
from tfmp.nonfinite import replay
from tfmp.precision import LayerNode, TensorCorePath, layer_tree, tensor_core_path
from tfmp.profiling.runs import TrainingRun, Variant
from tfmp.roofline import Work, layer_work, without_cudnn
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.wording import first_line

# A call to time; it returns its last results.
Timed: TypeAlias = Callable[[], TensorTree]

# The positional and the keyword arguments of a layer.
Arguments: TypeAlias = tuple[tuple[TensorTree, ...], dict[str, TensorTree]]

_ROUNDS = 7

# A block of calls lasts about this long, so that the clock's own resolution does not matter.
_BLOCK_SECONDS = 0.004
_MOST_CALLS = 100


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer under one variant, over all its calls in a step.

    Attributes:
        dtype: dtype that the layer computes in.
        seconds: the fastest forward and backward pass, without the cost of calling.
        share: share of the sum over all layers.
        tensor_cores: whether the layer can run on Tensor Cores.
        forward, backward: FLOPs and bytes; None if they were not counted.
    """

    dtype: str
    seconds: float
    share: float
    tensor_cores: TensorCorePath
    forward: Work | None = None
    backward: Work | None = None


@dataclass(frozen=True)
class LayerProfile:
    """One layer under every variant.

    Attributes:
        path: path of the layer in the model.
        layer_class: name of its class.
        calls: number of calls in one step.
        costs: its costs, by name of the variant.
    """

    path: str
    layer_class: str
    calls: int
    costs: Mapping[str, LayerCost]


@dataclass(frozen=True)
class _Spent:
    """The time and the work of some calls."""

    seconds: float
    forward: Work | None = None
    backward: Work | None = None

    def __add__(self, other: "_Spent") -> "_Spent":
        if other.forward is None or other.backward is None:
            return _Spent(self.seconds + other.seconds)
        return _Spent(
            self.seconds + other.seconds,
            (self.forward or Work()) + other.forward,
            (self.backward or Work()) + other.backward,
        )


@dataclass
class _Row:
    """A layer so far: its node, and what its calls cost, by variant."""

    nodes: dict[str, LayerNode]
    spent: dict[str, _Spent]
    calls: int = 0


@dataclass(frozen=True)
class _TimedCall:
    """A call to time: shapes in place of floating-point tensors, and all other values."""

    node: LayerNode
    args: tuple[TensorTree, ...]
    kwargs: dict[str, TensorTree]


def profile_layers(
    runs: Mapping[str, TrainingRun], mark: Mark = nullcontext, counted: bool = False
) -> tuple[tuple[LayerProfile, ...], list[str]]:
    """Measures every layer of the runs' models, which are copies of one model.

    Args:
        runs: by variant, the runs.
        mark: the ranges around each layer's calls.
        counted: whether FLOPs and bytes are counted, too.

    Returns:
        The layers in the order of their first call, and notes about layers without a measurement.
    """
    names = list(runs)
    rows: dict[str, _Row] = {}
    notes: list[str] = []
    known: dict[tuple[str, ...], dict[str, _Spent] | str] = {}
    for together in zip(*map(_recorded_calls, runs.values()), strict=True):
        by_name = dict(zip(names, together, strict=True))
        path, key = together[0].node.path, tuple(map(_key, together))
        if key not in known:
            known[key] = _measure(by_name, runs, mark, counted)
        found = known[key]
        if isinstance(found, str):
            notes.append(f"layer {path} could not be measured: {found}")
            continue
        nodes = {name: call.node for name, call in by_name.items()}
        row = rows.setdefault(path, _Row(nodes, dict.fromkeys(names, _Spent(0.0))))
        row.calls += 1
        row.spent = {name: row.spent[name] + found[name] for name in names}
    totals = {name: sum(row.spent[name].seconds for row in rows.values()) or 1.0 for name in names}
    return tuple(
        LayerProfile(
            path,
            type(row.nodes[names[0]].layer).__name__,
            row.calls,
            {
                name: _cost(row.nodes[name], runs[name].variant, row.spent[name], totals[name])
                for name in names
            },
        )
        for path, row in rows.items()
    ), list(dict.fromkeys(notes))


def _cost(node: LayerNode, variant: Variant, spent: _Spent, total: float) -> LayerCost:
    dtype = node.layer.compute_dtype or "none"
    return LayerCost(
        dtype,
        spent.seconds,
        spent.seconds / total,
        tensor_core_path(node, dtype, variant.uses_tf32),
        spent.forward,
        spent.backward,
    )


def _recorded_calls(run: TrainingRun) -> list[_TimedCall]:
    """The calls of one step, in order, without layers that are made of other layers."""
    found: list[_TimedCall] = []

    def record(call: replay.Call) -> TensorTree:
        if _is_row(call.node) and all(map(current_backend().is_concrete, call.float_inputs())):
            args, kwargs = tree.map_structure(_described, (call.args, call.kwargs))
            found.append(_TimedCall(call.node, args, kwargs))
        return call.outputs

    run.give_back()
    x, y, *weight = run.batch()
    replay.run(replay.make_step(run.model, x, y, weight[0] if weight else None), record)
    return found


def _is_row(node: LayerNode) -> bool:
    """Whether a layer is measured as a whole: it is not made of the user's layers."""
    if node.path == layer_tree.ROOT or node.head is not None:
        return False
    return all(child.head is not None for child in node.children)


@dataclass(frozen=True)
class _Like:
    """Takes the place of a floating-point tensor."""

    shape: tuple[int, ...]
    dtype: str
    mask: Tensor | None


def _described(value: Tensor) -> Tensor | _Like:
    if not replay.is_float(value):
        return value
    dtype = keras.backend.standardize_dtype(value.dtype)
    return _Like(tuple(value.shape), dtype, get_keras_mask(value))


def _key(call: _TimedCall) -> str:
    """A text that is equal for calls that cost the same."""
    try:
        config = {**call.node.layer.get_config(), "name": ""}
        kind = json.dumps(keras.saving.serialize_keras_object(config), default=str)
    except Exception:  # a layer without a config is like no other
        kind = str(id(call.node.layer))

    def shown(leaf: object) -> str:
        if isinstance(leaf, _Like):
            return f"{leaf.shape}{leaf.dtype}{leaf.mask is not None}"
        if ops.is_tensor(leaf):
            return f"{getattr(leaf, 'shape', None)}{getattr(leaf, 'dtype', None)}"
        return repr(leaf)

    given = [shown(leaf) for leaf in tree.flatten((call.args, call.kwargs))]
    return f"{type(call.node.layer)}{kind}{given}"


def _measure(
    calls: Mapping[str, _TimedCall], runs: Mapping[str, TrainingRun], mark: Mark, counted: bool
) -> dict[str, _Spent] | str:
    """The cost of one call by variant, or the reason why it could not be measured."""
    blocks: dict[str, Callable[[], float]] = {}
    counts: dict[str, int] = {}
    try:
        for name, call in calls.items():
            variant = runs[name].variant
            idle = _compiled(lambda *_: ops.zeros((), "float32"), [], [], runs[name])
            for part, work in (("", _work(call, runs[name])), (" idle", idle)):
                with devices.tf32_switched(variant.tf32):
                    work()
                    once = timed(work)
                count = min(_MOST_CALLS, max(1, int(_BLOCK_SECONDS / max(once, 1e-9))))
                label = f"{call.node.path} in {name}{part}"
                blocks[name + part] = _block(work, count, variant, mark, label)
                counts[name + part] = count
        timings = interleaved(blocks, _ROUNDS)
    except Exception as error:  # a backend may raise any error for a single layer
        return first_line(error)[:200]
    # The fastest rounds: other work of the machine only adds time, and the median of a difference
    # of two small times would mostly show that work.
    fastest = {name: min(timing.per(counts[name]).seconds) for name, timing in timings.items()}
    seconds = {name: max(0.0, fastest[name] - fastest[f"{name} idle"]) for name in calls}
    works = {name: _counted(calls[name]) if counted else (None, None) for name in calls}
    return {name: _Spent(seconds[name], *works[name]) for name in calls}


def _counted(call: _TimedCall) -> tuple[Work, Work]:
    """FLOPs and bytes of one call, forward and backward."""
    layer = call.node.layer
    forward, weights, floats = _forward(call)
    try:
        with without_cudnn(layer):
            return layer_work(forward, weights, floats)
    except Exception as error:  # a program that XLA cannot take may raise any error
        unknown = Work(uncounted=(f"the whole layer: {first_line(error)[:100]}",))
        return unknown, unknown


def _block(
    work: Timed, count: int, variant: Variant, mark: Mark, label: str
) -> Callable[[], float]:
    def repeated() -> TensorTree:
        for _ in range(count):
            last = work()
        return last

    def block() -> float:
        with devices.tf32_switched(variant.tf32), mark(label):
            return timed(repeated)

    return block


def _forward(
    call: _TimedCall,
) -> tuple[Callable[..., list[Tensor]], list[Tensor], list[Tensor]]:
    """One call as a function of weights and inputs, and tensors for both."""
    layer = call.node.layer
    floats, rebuild = _tensors(call)
    weights = [variable.value for variable in layer.trainable_variables]
    takes_training = layer._call_has_training_arg

    def forward(weights: Sequence[Tensor], floats: Sequence[Tensor]) -> list[Tensor]:
        args, kwargs = rebuild(floats)
        if takes_training:
            kwargs["training"] = True
        mapping = list(zip(layer.trainable_variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            outputs = layer(*args, **kwargs)
        return list(replay.floats(outputs))

    return forward, weights, floats


def _work(call: _TimedCall, run: TrainingRun) -> Timed:
    """A compiled forward and backward pass of one call."""
    forward, weights, floats = _forward(call)

    def objective(weights: Sequence[Tensor], floats: Sequence[Tensor]) -> Tensor:
        sums = [ops.sum(ops.cast(value, "float32")) for value in forward(weights, floats)]
        return sum(sums, ops.zeros((), "float32"))

    return _compiled(objective, weights, floats, run)


def _compiled(
    objective: Callable[..., Tensor], weights: list[Tensor], floats: list[Tensor], run: TrainingRun
) -> Timed:
    own = current_backend()

    def both(weights: list[Tensor], floats: list[Tensor]) -> TensorTree:
        return own.gradients(objective, (weights, floats))

    program = own.compiled(both, jit=bool(run.model.jit_compile))
    return lambda: program(weights, floats)


def _tensors(
    call: _TimedCall,
) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Arguments]]:
    """Floating-point tensors for a call, and a function that puts tensors in their places."""
    rng = np.random.default_rng(0)
    leaves = tree.flatten((call.args, call.kwargs))
    likes = [leaf for leaf in leaves if isinstance(leaf, _Like)]
    floats = [
        ops.cast(ops.convert_to_tensor(rng.standard_normal(like.shape, np.float32)), like.dtype)
        for like in likes
    ]

    def rebuild(values: Sequence[Tensor]) -> Arguments:
        remaining = iter(zip(likes, values, strict=True))

        def put(leaf: Tensor | _Like) -> Tensor:
            if not isinstance(leaf, _Like):
                return leaf
            like, value = next(remaining)
            if like.mask is not None:
                set_keras_mask(value, like.mask)
            return value

        return tree.map_structure(put, (call.args, call.kwargs))

    return floats, rebuild
