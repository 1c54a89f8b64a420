"""Compares a sigmoid or softmax by the values that went into it.

Far from the middle these are numbers like 1e-20. Runtimes compute them within float32's step at 1,
which is all that a probability needs, and by a multiple of their own size.
"""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import infer_types, open_once
from tfmp.converters.shared.tensors import Batch, relative_l2

# Eight steps of float32 at 1: what vectorized exponentials of runtimes are off by at most.
_STEPS = 8 * float(np.finfo(np.float32).eps)

# Beyond it float32 holds no exponential with all of its digits.
_LARGEST = 80.0

_MOVERS = ("Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def agrees_before(
    model: ir.Model, name: str, batch: Batch, expected: np.ndarray, received: np.ndarray
) -> bool:
    """Whether an output differs in its tails only, and its logits not at all.

    Args:
        model: the export; it is not changed.
        name: of the output.
        batch: inputs of both.
        expected: the output of the original.
        received: the output of the export.

    Returns:
        True where the output is a sigmoid or softmax, no value is off by more than float32's step
        at 1, and the logits of the original are those that the export computed.
    """
    if expected.shape != received.shape or expected.dtype != np.float32:
        return False
    if not float(np.abs(expected - received).max(initial=0.0)) <= _STEPS:
        return False
    copy = model.clone()
    (output,) = [value for value in copy.graph.outputs if value.name == name]
    node = output.producer()
    while node is not None and node.op_type in _MOVERS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type not in ("Sigmoid", "Softmax") or node.inputs[0] is None:
        return False
    infer_types(copy)
    logits = node.inputs[0]
    if logits.dtype != ir.DataType.FLOAT:
        return False
    copy.graph.outputs.append(logits)
    (computed,) = open_once(copy)([str(logits.name)], batch)
    wide = np.asarray(computed, np.float64)
    exact = np.asarray(expected, np.float64)
    with np.errstate(divide="ignore"):
        if node.op_type == "Sigmoid":
            theirs = np.log(exact) - np.log1p(-exact)
        else:
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
            top = wide.max(axis=axis, keepdims=True)
            wide = wide - top - np.log(np.exp(wide - top).sum(axis=axis, keepdims=True))
            theirs = np.log(exact)
    # Movers keep the values and not their places; near 1 float32 has no digits left of a logit.
    a, b = (np.sort(np.clip(value, -_LARGEST, 12.0), axis=None) for value in (theirs, wide))
    return relative_l2(a, b) <= 1e-3
