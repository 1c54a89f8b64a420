"""Finds the place where an export goes wrong: its first inner value that is not TensorFlow's."""

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from tfmp.converters.intake import Source
from tfmp.converters.onnx.export.freeze import FrozenGraph, freeze
from tfmp.converters.onnx.graph import infer_types, open_once
from tfmp.converters.shared.tensors import Batch, relative_l2
from tfmp.converters.shared.traced_runs import run_traced

# Wider than FP32 rounding anywhere but at the end of a chaotic model, which is not looked at here.
_REL_L2 = 1e-4


def first_wrong(model: ir.Model, source: Source, batch: Batch) -> str | None:
    """The op whose result the export gets wrong first, and its layer.

    tf2onnx keeps TensorFlow's names for values that it does not merge: these are compared, and the
    outputs.

    Args:
        model: the export; it is not changed.
        source: the model that it was made from.
        batch: arrays by input name.

    Returns:
        Op and layer, for example "While in lstm"; None if all values of the same name are alike.
    """
    frozen = freeze(source)
    kinds = {node.name: node.op for node in frozen.graph_def.node}
    model = model.clone()
    infer_types(model)
    outputs = list(model.graph.outputs)
    shared = [
        value
        for node in model.graph
        for value in node.outputs
        if (value.name or "").partition(":")[0] in kinds and value.dtype is not None
    ]
    model.graph.outputs.extend(value for value in shared if value not in outputs)
    names = [str(value.name) for value in shared]
    last = [str(value.name) for value in outputs]
    expected = {**source.forward(batch), **_in_tensorflow(frozen, names, batch)}
    received = open_once(model)([*names, *last], batch)
    alike = {
        value: _alike(one, expected[str(value.name)])
        for value, one in zip([*shared, *outputs], received, strict=True)
    }
    right_below = _before_what_is_right(model, alike)
    for value, right in alike.items():
        if not right and not any(reader in right_below for reader in value.consumers()):
            return _described(value, kinds)
    return None


def _before_what_is_right(model: ir.Model, alike: Mapping[ir.Value, bool]) -> set[ir.Node]:
    """The nodes whose results lead to floats that are right.

    These nodes cannot be wrong: their values only mean something else if two ops became one.
    """
    found: set[ir.Node] = set()
    for node in reversed(list(model.graph)):
        if any(
            (alike.get(value, False) and value.dtype == ir.DataType.FLOAT)
            or any(reader in found for reader in value.consumers())
            for value in node.outputs
        ):
            found.add(node)
    return found


def _described(value: ir.Value, kinds: Mapping[str, str]) -> str:
    """Op and layer: TensorFlow's op, where the value has its name, else ONNX's."""
    node = value.producer()
    if node is None:
        return str(value.name)
    op = kinds.get(str(value.name).partition(":")[0], node.op_type)
    layer = node.metadata_props.get("tfmp.layer")
    return f"{op} in {layer}" if layer else op


def _in_tensorflow(frozen: FrozenGraph, names: list[str], batch: Batch) -> Batch:
    import tensorflow as tf

    imported = tf.compat.v1.wrap_function(
        lambda: tf.graph_util.import_graph_def(frozen.graph_def, name=""), []
    )
    tensor = imported.graph.as_graph_element
    run = imported.prune([tensor(name) for name in frozen.inputs], [tensor(n) for n in names])
    arrays = {**frozen.weights, **batch}
    fed = [
        tf.constant(arrays[ours], dtype=tensor(theirs).dtype)
        for theirs, ours in frozen.inputs.items()
    ]
    return {
        name: np.asarray(value) for name, value in zip(names, run_traced(run, *fed), strict=True)
    }


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether these are the same numbers in any layout: tf2onnx moves axes."""
    if np.iscomplexobj(other):
        other = np.stack([other.real, other.imag])
    if one.size != other.size:
        return False
    if one.dtype.kind not in "biuf" or other.dtype.kind not in "biuf":
        return True
    a, b = (np.sort(value.astype(np.float64), axis=None) for value in (one, other))
    return relative_l2(b, a) <= _REL_L2
