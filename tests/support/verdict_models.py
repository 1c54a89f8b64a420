"""Verdict cases end to end: models that look up a case's outputs, through `validate`.

The input of both models is the row of their tables. The reference is a function of TensorFlow or,
if the case knows a loss or an activation, a compiled Keras model whose last layer has it. The
candidate is an ONNX file whose tables are FP16 where that holds each value; then it computes in
FP16.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from verdict_arrays import by_output, in_batches, of_any_length
from verdict_case import Case, Outputs, Table

from tfmp.converters import validate
from tfmp.converters.report.model import DriftReport

# Exactly 0 or 1 behind a sigmoid or a softmax in float32.
SATURATED = 120.0

INVERSES = {
    None: lambda y: y,
    "linear": lambda y: y,
    "relu": lambda y: y,
    "tanh": np.arctanh,
    "sigmoid": lambda y: _clipped(np.log(y) - np.log1p(-y)),
    "softmax": lambda y: _clipped(np.log(y)),
    "softplus": lambda y: y + np.log(-np.expm1(-y)),
    "exponential": np.log,
}


def report_of(case: Case, folder: Path) -> DriftReport:
    """Validates the candidate of a case with the default budget.

    Args:
        case: the case.
        folder: gets the candidate's file.
    """
    outputs = case.outputs()
    declared: dict[str, Any] = {}
    if case.tasks:
        declared["tasks"] = dict(case.tasks)
    if case.metric:
        declared["metric"] = case.metric
    return validate(
        reference_of(case, outputs),
        candidate_of(outputs, folder / "candidate.onnx"),
        in_batches(outputs),
        outputs.labels,
        **declared,
    )


def reference_of(case: Case, outputs: Outputs) -> Any:
    """The float32 model of a case, for `validate`."""
    if case.loss is None and case.activation is None:
        return _function(outputs)
    return _keras_model(case, outputs.reference)


def _function(outputs: Outputs) -> Any:
    import tensorflow as tf

    tables = outputs.reference
    batch = 1 if of_any_length(tables) else None

    @tf.function(input_signature=[tf.TensorSpec([batch], tf.int32, name="sample")])
    def model(sample: tf.Tensor) -> dict[str, tf.Tensor]:
        found = {}
        for name, table in tables.items():
            if isinstance(table, list):
                flat, starts, ends = _flattened(table)
                row = slice(tf.constant(starts)[sample[0]], tf.constant(ends)[sample[0]])
                value = tf.constant(flat)[row]
                value.set_shape([None, *flat.shape[1:]])
                found[name] = value[None] if outputs.batched else value
            else:
                known = table.tolist() if table.dtype.kind in "OU" else table
                found[name] = tf.gather(tf.constant(known), sample)
        return found

    return model


def _keras_model(case: Case, tables: Mapping[str, Table]) -> Any:
    import keras

    sample = keras.Input((), dtype="int32", name="sample")
    heads = {}
    for name, table in tables.items():
        assert isinstance(table, np.ndarray)
        activation = by_output(case.activation, name)
        with np.errstate(divide="ignore"):
            before = INVERSES[activation](table.astype(np.float64)).astype(np.float32)
        assert np.isfinite(before).all(), f"{case.name}: not finite before {activation}"
        width = before[0].size
        found = keras.layers.Embedding(
            len(before), width, embeddings_initializer=_constant(before.reshape(-1, width))
        )(sample)
        if before.ndim != 2:
            found = keras.layers.Reshape(before.shape[1:] or (1,))(found)
        units = before.shape[-1]
        heads[name] = keras.layers.Dense(
            units, activation, False, kernel_initializer=_constant(np.eye(units)), name=name
        )(found)
    model = keras.Model(sample, heads if len(heads) > 1 else next(iter(heads.values())))
    loss = case.loss
    if len(heads) > 1:
        loss = {name: by_output(loss, name) for name in heads}
    model.compile(loss=loss)
    return model


def _constant(values: np.ndarray) -> Any:
    return lambda shape, dtype=None: values.astype(np.float32).reshape(shape)


def _clipped(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -SATURATED, SATURATED)


def candidate_of(outputs: Outputs, path: Path) -> Path:
    """Writes the ONNX file that answers as the candidate does."""
    batch = 1 if of_any_length(outputs.candidate) else "n"
    nodes, tables, results = [], [], []

    def table_of(values: np.ndarray, name: str) -> str:
        values = values.astype(object) if values.dtype.kind == "U" else values
        tables.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    for index, (name, table) in enumerate(outputs.candidate.items()):
        own = f"head_{index}"
        values, starts, ends = _flattened(table) if isinstance(table, list) else (table, None, None)
        dtype = helper.np_dtype_to_tensor_dtype(
            np.dtype(object if _is_text(values) else values.dtype)
        )
        text = _is_text(values) and not isinstance(table, list)
        stored = "" if text else table_of(_stored(values), f"{own}_table")
        if isinstance(table, list):
            for bound, numbers in (("start", starts), ("end", ends)):
                table_of(numbers, f"{own}_{bound}s")
                nodes.append(
                    helper.make_node("Gather", [f"{own}_{bound}s", "sample"], [f"{own}_{bound}"])
                )
            cut = [stored, f"{own}_start", f"{own}_end", table_of(np.array([0]), f"{own}_axis")]
            nodes.append(helper.make_node("Slice", cut, [f"{own}_rows"]))
            shape = [f"{own}_length", *values.shape[1:]]
            if outputs.batched:
                shape = [1, *shape]
                lifted = [f"{own}_rows", f"{own}_axis"]
                nodes.append(helper.make_node("Unsqueeze", lifted, [f"{own}_found"]))
            else:
                nodes.append(helper.make_node("Identity", [f"{own}_rows"], [f"{own}_found"]))
        elif text:
            # ONNX Runtime's Gather copies only the first text of each row.
            places = np.arange(values.size).reshape(values.shape)
            flat = [table_of(values.ravel(), f"{own}_flat"), f"{own}_places"]
            chosen = [table_of(places, f"{own}_all"), "sample"]
            nodes.append(helper.make_node("Gather", chosen, [f"{own}_places"]))
            nodes.append(helper.make_node("Gather", flat, [f"{own}_found"]))
            shape = [batch, *values.shape[1:]]
        else:
            nodes.append(helper.make_node("Gather", [stored, "sample"], [f"{own}_found"]))
            shape = [batch, *values.shape[1:]]
        if _is_text(values):
            nodes.append(helper.make_node("Identity", [f"{own}_found"], [name]))
        else:
            nodes.append(helper.make_node("Cast", [f"{own}_found"], [name], to=dtype))
        results.append(helper.make_tensor_value_info(name, dtype, shape))
    sample = helper.make_tensor_value_info("sample", onnx.TensorProto.INT32, [batch])
    graph = helper.make_graph(nodes, "candidate", [sample], results, tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def _stored(values: np.ndarray) -> np.ndarray:
    """Values in FP16 where that changes none of them."""
    if values.dtype == np.float32:
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float16)
        if np.array_equal(narrow.astype(np.float32), values, equal_nan=True):
            return narrow
    return values


def _flattened(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of any length behind one another, and where each of them starts and ends."""
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    return np.concatenate(rows), ends - [len(row) for row in rows], ends


def _is_text(values: np.ndarray) -> bool:
    return values.dtype.kind in "OU"
