"""The ops that ONNX Runtime's optimizer makes of several nodes, found by that optimizer itself.

It runs on a float32 copy of a model, on the CPU, where nothing is fused across what was a cast
between FP16 and FP32. Fusions for CUDA alone read other ops that such
files do not hold (GroupQueryAttentionFusion, BiasDropoutFusion: see the source in `facts`);
fusions for the CPU alone are switched off, or are none of the ops that are asked for.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.onnx.graph import (
    HALVES,
    is_float,
    is_half,
    number_of,
    widen,
)
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.numerics import round_to

# Would hide Gemm and Conv behind ops of the CPU provider (graph_transformer_utils.cc: cpu_ep).
_CPU_ONLY = ("GemmActivationFusion", "ConvActivationFusion")

# Elements of constants that decide about fusions: scalars, biases, scales. Larger ones are weights.
_LARGEST_CONSTANT = 2**14

# Numbers that patterns of the optimizer hold, to seven digits in float32 and rounded in FP16:
# those of GELU (gelu_fusion.cc, fast_gelu_fusion.cc).
_KNOWN = (2**0.5, 2**-0.5, 0.044715, (2 / math.pi) ** 0.5, 0.044715 * (2 / math.pi) ** 0.5)

_KERNEL = "tfmp.kernel"


@dataclass(frozen=True)
class Fusion:
    """One op of the optimizer.

    Attributes:
        op_type: of the optimizer's op, such as "FusedMatMul".
        last: name of the value that it writes.
        inner: names of the values that it does not write to memory.
    """

    op_type: str
    last: str
    inner: frozenset[str]


def kernel_of(node: ir.Node) -> str:
    """The op whose kernel computes a node: its own, or the one that `mark` has named."""
    return node.metadata_props.get(_KERNEL, node.op_type)


def mark(model: ir.Model, fusions: Iterable[Fusion], hidden: Collection[str]) -> None:
    """Names the kernel of each node that writes, or is inside of, the result of a fusion.

    Args:
        model: the model.
        fusions: in its main graph.
        hidden: names of values that are not written; other inner values are those of nodes that
            compute as if they were alone.
    """
    by_value = {
        name: fusion.op_type
        for fusion in fusions
        for name in (fusion.last, *fusion.inner.intersection(hidden))
    }
    for node in model.graph:
        for value in node.outputs:
            if value.name in by_value:
                node.metadata_props[_KERNEL] = by_value[value.name]


def predicted(model: ir.Model, ops: Collection[str]) -> tuple[Fusion, ...]:
    """The fusions that ONNX Runtime makes in the part of a model that has 16 bits.

    Args:
        model: an FP16 model, prepared by `fp16.prepare`; it is not changed.
        ops: op types of the optimizer that are asked for.

    Returns:
        The fusions of two nodes or more; empty where the optimizer refuses the model.
    """
    if not ops:
        return ()
    copy = model.clone()
    _cut(copy)
    _leave_weights(copy.graph)
    widen(copy)
    _sharpen(copy)
    try:
        optimized = _optimized(copy)
    except Exception:  # ONNX Runtime's exceptions share no base class
        return ()
    makers = {value.name: node for node in model.graph for value in node.outputs}
    found = (_fusion(node, makers) for node in optimized.node if node.op_type in ops)
    return tuple(fusion for fusion in found if fusion is not None)


def _cut(model: ir.Model) -> None:
    """Makes of casts between FP16 and FP32 a function that the optimizer fuses with nothing."""
    for node in model.graph:
        if node.op_type == "Cast" and node.domain == "":
            sides = [*node.inputs, *node.outputs]
            if any(map(is_float, sides)) and any(map(is_half, sides)):
                node.op_type = "Sin"
                node.attributes.clear()


def _sharpen(model: ir.Model) -> None:
    """Gives constants that are roundings of `_KNOWN` all digits of float32 again."""
    for value in model.graph.initializers.values():
        number = number_of(value)
        for known in _KNOWN if number is not None else ():
            if number in {float(round_to(np.array(known), half)) for half in HALVES.values()}:
                array = np.full(value.const_value.shape.numpy(), known, np.float32)
                value.const_value = ir.tensor(array, name=value.name)


def _leave_weights(graph: ir.Graph) -> None:
    """Makes inputs of the weights, which decide about no fusion and take memory."""
    for name, value in list(graph.initializers.items()):
        if value.const_value is not None and value.const_value.size > _LARGEST_CONSTANT:
            del graph.initializers[name]
            value.const_value = None
            if not value.is_graph_input():
                graph.inputs.append(value)


def _optimized(model: ir.Model) -> onnx.GraphProto:
    import onnxruntime

    proto = ir.to_proto(ir.external_data.load_to_model(model))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.graph_optimization_level = level
    with temporary_folder() as folder:
        path = folder / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(
            proto.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=list(_CPU_ONLY),
        )
        return onnx.load(path).graph


def _fusion(fused: onnx.NodeProto, makers: dict[str | None, ir.Node]) -> Fusion | None:
    """The nodes of the file between the operands and the result of an op of the optimizer."""
    last = makers.get(fused.output[0])
    if last is None:
        return None
    ends, region, waiting = set(fused.input), {last}, [last]
    while waiting:
        for value in waiting.pop().inputs:
            if value is None or value.name in ends or value.const_value is not None:
                continue
            node = makers.get(value.name)
            if node is None:
                return None  # it reads another value than the optimizer's op
            if node not in region:
                region.add(node)
                waiting.append(node)
    # An op of the file is none of the optimizer's, which only took an Identity away beside it.
    if len(region) == 1 or fused.op_type in {node.op_type for node in region}:
        return None
    inner = (value for node in region - {last} for value in node.outputs)
    hidden = frozenset(
        str(value.name)
        for value in inner
        if is_half(value) and not value.is_graph_output() and region.issuperset(value.consumers())
    )
    return Fusion(fused.op_type, str(last.outputs[0].name), hidden)
