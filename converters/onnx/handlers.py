"""tf2onnx handlers for TensorFlow ops that Keras 3 emits and tf2onnx does not know.

Importing this module registers them. Each is a composition of standard ONNX ops.
"""

from typing import Any

import numpy as np
from tf2onnx.handler import tf_op

# The signature of a handler is tf2onnx's: (graph, node to replace, attributes).


def _constant(ctx: Any, node: Any, value: float) -> str:
    dtype = np.float64 if ctx.get_dtype(node.input[0]) == 11 else np.float32  # 11: DOUBLE
    name = f"{node.name}_constant_{value:g}".replace("-", "minus_")
    return ctx.make_const(ctx_name(ctx, name), np.array(value, dtype=dtype)).output[0]


def ctx_name(ctx: Any, name: str) -> str:
    """A node name that `ctx` does not have yet."""
    from tf2onnx.utils import make_name

    return make_name(name)


def _replace(ctx: Any, node: Any, op_type: str, inputs: list[str]) -> None:
    """Replaces `node` by a node of `op_type` on `inputs`, with the same output."""
    shapes, dtypes = node.output_shapes, node.output_dtypes
    ctx.remove_node(node.name)
    ctx.make_node(
        op_type, inputs, name=node.name, outputs=node.output, shapes=shapes, dtypes=dtypes
    )


@tf_op("Erfc")
class Erfc:
    """erfc(x) = 1 - erf(x): exact GELU is x/2 * erfc(-x / sqrt(2)) in Keras."""

    @classmethod
    def version_9(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        erf = ctx.make_node("Erf", [node.input[0]])
        _replace(ctx, node, "Sub", [_constant(ctx, node, 1.0), erf.output[0]])


@tf_op("Log1p")
class Log1p:
    """log1p(x) = log(1 + x)."""

    @classmethod
    def version_7(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        total = ctx.make_node("Add", [node.input[0], _constant(ctx, node, 1.0)])
        _replace(ctx, node, "Log", [total.output[0]])


@tf_op("Expm1")
class Expm1:
    """expm1(x) = exp(x) - 1."""

    @classmethod
    def version_7(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        power = ctx.make_node("Exp", [node.input[0]])
        _replace(ctx, node, "Sub", [power.output[0], _constant(ctx, node, 1.0)])
