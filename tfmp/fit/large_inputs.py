"""Inputs past FP16's largest number: finds them, and has the layers that read them in float32."""

import keras
from keras import ops, tree

from tfmp.fit.nonfinite_watch import locate_in, move_to_float32
from tfmp.nonfinite import NonFinite, replay, stored_values
from tfmp.precision import (
    LayerNode,
    PrecisionPlan,
    is_graph,
    layer_tree,
    reverting,
)
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.findings import Finding
from tfmp.shared.numerics import FLOAT16

_SCALE_DATA = (
    "Scale the data, or put a Rescaling or Normalization layer first: they stay in float32"
)


def too_large_inputs(
    model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]
) -> tuple[Finding, ...]:
    """One finding for each input past FP16's largest number that a float16 layer reads.

    Args:
        model: the model with the plan applied.
        plan: the applied plan.
        batches: the batches as `fit` has them.
    """
    readers = _float16_readers(layer_tree.walk(model), plan)
    if not readers:
        return ()
    where = layer_tree.describe(readers[0].path)
    return tuple(
        Finding(
            "inputs past 65504",
            "problem",
            f"Input {name} reaches {largest:g}, infinite in float16, and {where} reads it in "
            "float16",
            _SCALE_DATA,
        )
        for name, largest in _past_65504(model, batches).items()
    )


def reads_large_inputs(model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]) -> bool:
    """Whether a float16 layer may get inputs past FP16's largest number, directly or changed."""
    if "float16" not in plan.narrow_dtypes or not _past_65504(model, batches):
        return False
    root = layer_tree.walk(model)
    has_code = any(layer_tree.operations_of(node.layer) for node in root.within())
    # Code between the inputs and the first layer may hand large values on.
    return bool(_float16_readers(root, plan)) or not is_graph(root.layer) or has_code


def widen_readers(
    model: keras.Model, plan: PrecisionPlan, batches: list[TensorTree]
) -> tuple[str, ...]:
    """Moves the layers to float32 that read large inputs, and those that overflow behind them.

    Args:
        model: the model with the plan applied, between two steps.
        plan: the applied plan.
        batches: batches with inputs past FP16's largest number.

    Returns:
        The paths of the moved layers. The model's functions have to be traced anew.

    Raises:
        ValueError: a step on these batches is finite in float32, but not with these layers moved.
    """
    moved = []
    for node in _float16_readers(layer_tree.walk(model), plan):
        parts = [part.layer for part in node.unit() if part.layer.compute_dtype == "float16"]
        reverting.move_to_float32(model, parts)
        moved.append(layer_tree.describe(node.path))
    if not type(model).train_step.__module__.startswith("keras."):
        return tuple(moved)  # its own step may do more with the inputs than call the model
    while (found := _replayed(model, batches)) and found.cause == "overflow":
        path = move_to_float32(model, found)
        if path is None:
            break
        moved.append(path)
    if found and found.stage in ("forward", "loss"):
        _refuse_what_float32_trains(model, batches, found)
    return tuple(moved)


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
    found: dict[str, float] = {}
    for batch in batches:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        leaves = tree.flatten_with_path(x)
        for (path, value), as_float in zip(leaves, _taken_as_floats(model, leaves), strict=True):
            name = ".".join(map(str, path)) or "x"
            largest = _largest_magnitude(value) if as_float else 0.0
            if largest >= FLOAT16.overflow_threshold:
                found[name] = max(largest, found.get(name, 0.0))
    return found


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
    values = ops.cast(stored_values(value), "float32")
    return float(ops.max(ops.abs(values))) if values.shape[0] else 0.0


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
