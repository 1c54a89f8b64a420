"""A fault of ONNX Runtime's optimizer that ends the process while a file is loaded.

A transpose that moves the first axis behind other batch axes, in FP16 before a product, becomes a
cast before a transpose, which `MatmulTransposeFusion` adds without its schema; `NchwcTransformer`
then reads the schema. Seen from 1.24 to 1.31 on x86 (microsoft/onnxruntime#28392).
"""

from collections.abc import Iterator

import onnx_ir as ir

from tfmp.converters.onnx.graph.traversal import nodes_of
from tfmp.converters.shared.sessions import holds

# The optimizer to leave out, as `disabled_optimizers` of a session names it.
FAULTY_OPTIMIZER = "MatmulTransposeFusion"


def moves_first_axis(transpose: ir.Node) -> bool:
    """Whether a Transpose puts the first axis last among those of the batch."""
    order = transpose.attributes.get_ints("perm", [])
    rank = len(order)
    batch = [*range(1, rank - 1), 0]
    return rank > 2 and list(order) in ([*batch, rank - 1], [*batch[:-1], rank - 1, 0])


def fault_of(model: ir.Model) -> str:
    """What ends the process that loads this model, and the way round; "" if nothing does."""
    for node in _risky(model):
        return (
            "ONNX Runtime (seen in 1.24 to 1.31) can crash on x86 while it loads this file, at "
            f"MatMul {node.name or node.outputs[0].name!r} behind a Transpose "
            "(microsoft/onnxruntime#28392): open it with "
            f"InferenceSession(..., disabled_optimizers=[{FAULTY_OPTIMIZER!r}])"
        )
    return ""


def _risky(model: ir.Model) -> Iterator[ir.Node]:
    if not holds(model, "FLOAT16"):
        return
    for node in nodes_of(model.graph):
        if node.op_type != "MatMul" or node.domain:
            continue
        for value in node.inputs:
            maker = value.producer() if value is not None else None
            if maker is not None and maker.op_type == "Cast" and maker.inputs[0] is not None:
                maker = maker.inputs[0].producer()
            if maker is not None and maker.op_type == "Transpose" and moves_first_axis(maker):
                yield node
