"""The cost of each layer: its compiled forward and backward pass, on the shapes that it gets.

A layer is called as the model calls it, with inputs of the same shapes and dtypes, and a gradient
of its outputs goes back to its weights and its inputs. The cost of a call that computes nothing is
subtracted. Layers with the same configuration and shapes are measured
once. The sum differs from the time of a step, because compilers fuse across layers, and because of
the loss and the optimizer.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import keras
import numpy as np
from keras import ops, tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

from tfmp.machine import devices, interleaved, timed
from tfmp.nonfinite import replay
from tfmp.precision import LayerNode, TensorCorePath, layer_tree, tensor_core_path
from tfmp.profiling.runs import TrainingRun, Variant
from tfmp.roofline import Work, forward_and_backward, without_cudnn, work_of
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.wording import first_line

# A call to time; it returns its last results.
Timed: TypeAlias = Callable[[], TensorTree]

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
        work: FLOPs and bytes; None if they were not counted.
    """

    dtype: str
    seconds: float
    share: float
    tensor_cores: TensorCorePath
    work: Work | None = None


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


# The seconds and the work of a call.
_Spent: TypeAlias = tuple[float, Work | None]


@dataclass(frozen=True)
class _TimedCall:
    """A call to time: shapes in place of floating-point tensors, and all other values."""

    node: LayerNode
    args: tuple[TensorTree, ...]
    kwargs: dict[str, TensorTree]


def profile_layers(
    runs: Mapping[str, TrainingRun], counted: bool = False
) -> tuple[tuple[LayerProfile, ...], list[str]]:
    """Measures every layer of the runs' models, which are copies of one model.

    Args:
        runs: by variant, the runs.
        counted: whether FLOPs and bytes are counted, too.

    Returns:
        The layers in the order of their first call, and notes about layers without a measurement.
    """
    nodes: dict[str, dict[str, LayerNode]] = {}
    calls: dict[str, list[dict[str, _Spent]]] = {}
    notes: list[str] = []
    known: dict[tuple[str, ...], dict[str, _Spent] | str] = {}
    for together in zip(*map(_recorded_calls, runs.values()), strict=True):
        by_name = dict(zip(runs, together, strict=True))
        path, key = together[0].node.path, tuple(map(_key, together))
        if key not in known:
            known[key] = _measure(by_name, runs, counted)
        found = known[key]
        if isinstance(found, str):
            notes.append(f"layer {path} could not be measured: {found}")
            continue
        nodes[path] = {name: call.node for name, call in by_name.items()}
        calls.setdefault(path, []).append(found)
    totals = {name: sum(call[name][0] for each in calls.values() for call in each) for name in runs}

    def cost(path: str, name: str) -> LayerCost:
        node = nodes[path][name]
        times, works = zip(*(call[name] for call in calls[path]), strict=True)
        dtype = node.layer.compute_dtype or "none"
        seconds = sum(times)
        return LayerCost(
            dtype,
            seconds,
            seconds / (totals[name] or 1.0),
            tensor_core_path(node, dtype, runs[name].variant.uses_tf32),
            sum(filter(None, works), Work()) if counted else None,
        )

    return tuple(
        LayerProfile(
            path,
            type(next(iter(nodes[path].values())).layer).__name__,
            len(each),
            {name: cost(path, name) for name in runs},
        )
        for path, each in calls.items()
    ), list(dict.fromkeys(notes))


def _recorded_calls(run: TrainingRun) -> list[_TimedCall]:
    """The calls of one step, in order, without layers that are made of other layers."""
    found: list[_TimedCall] = []

    def record(call: replay.Call) -> TensorTree:
        if _is_row(call.node) and all(map(current_backend().is_concrete, call.float_inputs())):
            args, kwargs = tree.map_structure(_described, (call.args, call.kwargs))
            found.append(_TimedCall(call.node, args, kwargs))
        return call.outputs

    run.give_back()
    batch = keras.utils.unpack_x_y_sample_weight(run.batch())
    replay.run(replay.make_step(run.model, *batch), record)
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
    calls: Mapping[str, _TimedCall], runs: Mapping[str, TrainingRun], counted: bool
) -> dict[str, _Spent] | str:
    """The cost of one call by variant, or the reason why it could not be measured."""
    own = current_backend()
    blocks: dict[str, Callable[[], float]] = {}
    counts: dict[str, int] = {}
    works: dict[str, Work | None] = {}
    try:
        for name, call in calls.items():
            variant, jit = runs[name].variant, bool(runs[name].model.jit_compile)
            both, arguments = _passes(call)
            works[name] = _counted(call) if counted else None
            busy = partial(own.compiled(both, jit), *arguments)
            idle = own.compiled(lambda: ops.zeros((), "float32"), jit)
            for part, work in (("", busy), (" idle", idle)):
                with devices.tf32_switched(variant.tf32):
                    work()
                    once = timed(work)
                count = min(_MOST_CALLS, max(1, int(_BLOCK_SECONDS / max(once, 1e-9))))
                blocks[name + part] = _block(work, count, variant)
                counts[name + part] = count
        timings = interleaved(blocks, _ROUNDS)
    except Exception as error:  # a backend may raise any error for a single layer
        return first_line(error)[:200]
    # The fastest rounds: other work of the machine only adds time, and the median of a difference
    # of two small times would mostly show that work.
    fastest = {name: min(timing.per(counts[name]).seconds) for name, timing in timings.items()}
    return {
        name: (max(0.0, fastest[name] - fastest[f"{name} idle"]), works[name]) for name in calls
    }


def _counted(call: _TimedCall) -> Work:
    """FLOPs and bytes of one call, forward and backward."""
    try:
        with without_cudnn(call.node.layer):
            both, arguments = _passes(call)
            # The gradient of the outputs exists only after them.
            return work_of(both, arguments, first_results=len(arguments[1]))
    except Exception as error:  # a program that XLA cannot take may raise any error
        return Work(uncounted=(f"the whole layer: {first_line(error)[:200]}",))


def _block(work: Timed, count: int, variant: Variant) -> Callable[[], float]:
    def repeated() -> TensorTree:
        for _ in range(count):
            last = work()
        return last

    def block() -> float:
        with devices.tf32_switched(variant.tf32):
            return timed(repeated)

    return block


def _passes(
    call: _TimedCall,
) -> tuple[Callable[..., TensorTree], tuple[list[Tensor], list[Tensor]]]:
    """One call forward and backward, as a function of tensors, and tensors to call it with."""
    layer = call.node.layer
    leaves = tree.flatten((call.args, call.kwargs))
    likes = [leaf for leaf in leaves if isinstance(leaf, _Like)]
    weights = [variable.value for variable in layer.trainable_variables]

    def forward(sources: list[Tensor]) -> list[Tensor]:
        own, inputs = sources[: len(weights)], zip(likes, sources[len(weights) :], strict=True)

        def put(leaf: Tensor | _Like) -> Tensor:
            if not isinstance(leaf, _Like):
                return leaf
            like, value = next(inputs)
            if like.mask is not None:
                set_keras_mask(value, like.mask)
            return value

        args, kwargs = tree.map_structure(put, (call.args, call.kwargs))
        if layer._call_has_training_arg:
            kwargs["training"] = True
        mapping = list(zip(layer.trainable_variables, own, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return list(replay.floats(layer(*args, **kwargs)))

    rng = np.random.default_rng(0)
    values = [rng.standard_normal(like.shape, np.float32) for like in likes]
    pairs = zip(values, likes, strict=True)
    inputs = [ops.cast(ops.convert_to_tensor(value), like.dtype) for value, like in pairs]
    return forward_and_backward(forward, [*weights, *inputs])
