"""Emulates FP16 and BF16 arithmetic on a CPU: the graph runs in FP32, with every tensor rounded.

A GPU kernel multiplies values of 16 bits, accumulates in FP32 and rounds its results. An FP32
kernel does the same if its operands hold only such values and a pair of casts rounds its results,
each to the type that it has in the file: this is the
profile "gpu". The profile "pessimistic" also rounds partial sums; the profiles of runtimes differ
from "gpu" in the ways that `facts` lists.
"""

import onnx_ir as ir

from tfmp.converters.onnx.emulation.facts import Kind
from tfmp.converters.onnx.emulation.fp16_sums import sum_in_fp16
from tfmp.converters.onnx.emulation.fusions import Fusion, kernel_of, mark, predicted
from tfmp.converters.onnx.emulation.profiles import GPU, Profile
from tfmp.converters.onnx.emulation.recurrent import RECURRENT, unroll
from tfmp.converters.onnx.emulation.rounding import flushed, to_tf32
from tfmp.converters.onnx.emulation.sum_builder import SumBuilder
from tfmp.converters.onnx.graph import (
    BF16,
    EXACT,
    FP16,
    FP32,
    HALVES,
    is_float,
    is_half,
    new_cast,
    retype,
    widen_attributes,
    widen_constants,
)

# Key in the model's metadata for the ops that `emulated` could not look into.
FP32_INSIDE = "tfmp.fp32_inside"


def emulated(
    model: ir.Model, profile: Profile = GPU, fusions: tuple[Fusion, ...] | None = None
) -> ir.Model:
    """Turns an FP16 or BF16 model into a float32 one with the results of kernels of that type.

    Args:
        model: the model, prepared by `fp16.prepare`; it is changed in place. Its graph inputs and
            outputs keep their types, but bfloat16 ones become float32, as NumPy has no other.
        profile: the hardware or runtime to emulate.
        fusions: of the runtime, as `fusions_of` finds them; None to find them here.

    Returns:
        The model. Every value of 16 bits is float32 and holds only such numbers; a value past
        their range is infinite. The model's metadata names under `FP32_INSIDE` the op types that
        compute in FP32 inside though the profile does not: recurrent ones between their steps,
        and ops that still add up in FP32 although `profile` holds sums in FP16.
    """
    graph = model.graph
    fusions = fusions_of(model, profile) if fusions is None else fusions
    hidden = frozenset[str]().union(
        *(fusion.inner for fusion in fusions if fusion.op_type in profile.ops(Kind.FUSED))
    )
    mark(model, fusions, hidden)
    boundary = [value for value in graph.inputs if is_half(value)]
    nodes = list(graph.all_nodes())
    halves = {node: half for node in nodes if (half := half_of(node)) is not None}
    coarse = [node for node in nodes if _is_product_in_fp32(node, profile)]
    flushing = SumBuilder(model, None, 1, "tfmp_flushed") if profile.flushes else None
    widen_constants(model, profile.flushes)
    for node in nodes:
        _widen_node(node, graph, hidden, flushing)
    for index, node in enumerate(coarse):
        to_tf32(SumBuilder(model, node, 1, f"tfmp_tf32_{index}"), node)
    stepwise = RECURRENT - profile.ops(Kind.WIDE)
    recurrent = {node: half for node, half in halves.items() if node.op_type in stepwise}
    products, left = unroll(model, recurrent, bool(profile.ops(Kind.COARSE)))
    halves = {node: half for node, half in halves.items() if node.graph is not None} | products
    left = sorted({*left, *sum_in_fp16(model, halves, profile)})
    model.metadata_props[FP32_INSIDE] = ", ".join(left)
    for subgraph in model.graphs():
        if subgraph is not graph:
            for value in (*subgraph.inputs, *subgraph.outputs):
                if is_half(value):
                    retype(value, FP32)
    for value in boundary:
        _widen_input(graph, value, flushing)
    for index, value in enumerate(list(graph.outputs)):
        named = value.metadata_props.pop("tfmp.half_output", None)
        if named and named != BF16.name:
            _narrow_output(graph, index)
    return model


def half_of(node: ir.Node) -> ir.DataType | None:
    """The type of 16 bits that a node writes; None if it writes none."""
    return next((value.dtype for value in node.outputs if is_half(value)), None)


def fusions_of(model: ir.Model, profile: Profile) -> tuple[Fusion, ...]:
    """The fusions that the profile's runtime makes in a model; see `predicted`.

    A kernel of a fused op that rounds its steps counts before a fused op that holds FP32.
    """
    fused = profile.ops(Kind.FUSED)
    return predicted(model, fused | profile.ops(Kind.STEPS)) if fused else ()


def _in_fp32(node: ir.Node) -> bool:
    return node.domain == "" and is_float(node.outputs[0])


def _is_product_in_fp32(node: ir.Node, profile: Profile) -> bool:
    return node.op_type in profile.ops(Kind.TF32) and _in_fp32(node)


def _widen_node(
    node: ir.Node, main: ir.Graph, hidden: frozenset[str], flushing: SumBuilder | None
) -> None:
    """Makes one node compute in FP32 and rounds its results of 16 bits behind it.

    Args:
        node: of the model.
        main: the model's own graph.
        hidden: names of values of that graph that are not written to memory.
        flushing: where subnormal numbers are zero.
    """
    widen_attributes(node, flushing is not None)
    for value in node.outputs:
        half = value.dtype
        if half not in HALVES or not is_half(value):
            continue
        retype(value, FP32)
        if value.is_graph_output() and node.graph is main:
            value.metadata_props["tfmp.half_output"] = half.name
        if node.op_type in EXACT or node.op_type in ("If", "Loop", "Scan"):
            continue
        written = node.graph is not main or value.is_graph_output()
        if written or value.name not in hidden:
            _round_behind(node, value, half, flushing)
        elif kernel_of(node).endswith("LayerNormalization"):
            _hide_behind(node, value)


def _round_behind(
    node: ir.Node, value: ir.Value, half: ir.DataType, flushing: SumBuilder | None
) -> None:
    """Inserts Cast(half) -> Cast(float) between `value` and all its readers."""
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    down = _cast(value, half, f"{value.name}_rounded_half")
    up = _cast(down.outputs[0], FP32, f"{value.name}_rounded")
    made = [down, up, *(flushed(flushing, up.outputs[0]) if flushing else ())]
    rounded = made[-1].outputs[0]
    value.replace_all_uses_with(rounded, replace_graph_outputs=True)
    down.replace_input_with(0, value)
    graph.insert_after(node, made)
    if rounded.is_graph_output():
        # The graph output keeps its name; the unrounded value behind it takes another.
        name = value.name
        value.name, rounded.name = f"{name}_exact", name
        marked = value.metadata_props.pop("tfmp.half_output", None)
        if marked:
            rounded.metadata_props["tfmp.half_output"] = marked


def _hide_behind(node: ir.Node, value: ir.Value) -> None:
    """Inserts the maximum of one number behind a value that nothing rounds.

    Without it the optimizer of the emulating session would fuse the formula of a normalization,
    the casts behind it included, and end in an error about types (ONNX Runtime 1.26).
    """
    same = ir.Node("", "Max", [value], name=f"hide_{value.name}")
    output = same.outputs[0]
    output.name, output.type, output.shape = f"{value.name}_hidden", value.type, value.shape
    value.replace_all_uses_with(output)
    same.replace_input_with(0, value)
    assert isinstance(node.graph, ir.Graph)
    node.graph.insert_after(node, same)


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    return new_cast(value, dtype, name, f"cast_{name}")


def _widen_input(graph: ir.Graph, value: ir.Value, flushing: SumBuilder | None) -> None:
    """A float16 graph input stays float16, and a bfloat16 one is rounded; inside it is float32."""
    down = []
    if value.dtype == BF16:
        retype(value, FP32)
        down = [_cast(value, BF16, f"{value.name}_rounded_half")]
    up = _cast(down[0].outputs[0] if down else value, FP32, f"{value.name}_wide")
    made = [*down, up, *(flushed(flushing, up.outputs[0]) if flushing else ())]
    for reader, index in value.uses():
        if reader not in made:
            reader.replace_input_with(index, made[-1].outputs[0])
    if len(graph):
        graph.insert_before(graph[0], made)
    else:
        graph.extend(made)


def _narrow_output(graph: ir.Graph, index: int) -> None:
    """A float16 graph output stays float16, under its name."""
    value = graph.outputs[index]
    name = value.name
    value.name = f"{name}_wide"
    # The file's own cast of that name may be there, too.
    down = new_cast(value, FP16, str(name), f"narrow_{name}")
    graph.append(down)
    graph.outputs[index] = down.outputs[0]
