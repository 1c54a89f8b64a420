"""Clip as Max and Min where only these have kernels, in bfloat16 on CUDA (`fp16.gaps.BF16_OPS`)."""

from tfmp.converters.onnx.graph import Pattern
from tfmp.shared.numerics import BFLOAT16


def rewrite_clips(pattern: Pattern) -> None:
    """Puts Max and Min in the place of Clip in models for BF16."""
    if pattern.numbers != BFLOAT16:
        return
    for node in pattern.nodes("Clip"):
        result, output = node.inputs[0], node.outputs[0]
        for bound, op_type in zip(node.inputs[1:], ("Max", "Min"), strict=False):
            if bound is not None:
                suffix = op_type.lower()
                result = pattern.add(node, op_type, [result, bound], suffix, output.shape)
        if result is not None and result is not node.inputs[0]:
            pattern.replace(output, result, "became Max and Min")
            # Of the many that a network of relu6 has, one sentence is enough.
            pattern.done[-1] = "Clip became Max and Min, which have kernels for bfloat16"
