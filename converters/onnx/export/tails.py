"""Tells the tails of a sigmoid or softmax, which runtimes round as they like, from a wrong export.

Far from the middle these are numbers like 1e-20. Runtimes compute them within float32's step at 1,
which is all that a probability needs, and by a multiple of their own size.
"""

import numpy as np
import onnx_ir as ir

# Eight steps of float32 at 1: what vectorized exponentials of runtimes are off by at most.
_STEPS = 8 * float(np.finfo(np.float32).eps)

_MOVERS = ("Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def differs_in_tails(
    model: ir.Model, name: str, expected: np.ndarray, received: np.ndarray
) -> bool:
    """Whether an output is a sigmoid or softmax that is off by float32's step at 1 at most."""
    if expected.shape != received.shape or expected.dtype != np.float32:
        return False
    if not float(np.abs(expected - received).max(initial=0.0)) <= _STEPS:
        return False
    (output,) = [value for value in model.graph.outputs if value.name == name]
    node = output.producer()
    while node is not None and node.op_type in _MOVERS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node is not None and node.op_type in ("Sigmoid", "Softmax")
