"""Float32 graphs rewritten so that FP16 can hold what they compute; the results stay the same.

Every rewrite is exact but for float32's own rounding, and is made wherever its pattern is found:
what FP16 cannot hold depends on data that is not known when a file is written.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from tfmp.converters.onnx.graph import Pattern, node_matcher, remove_unused
from tfmp.converters.onnx.rewrites.exponentials import rewrite_exponentials
from tfmp.converters.onnx.rewrites.gelu import rewrite_gelu
from tfmp.converters.onnx.rewrites.masks import rewrite_masks, rewrite_selections
from tfmp.converters.onnx.rewrites.norms import rewrite_norms
from tfmp.converters.onnx.rewrites.scales import fold_scales

# Axes of reductions, Clip's bounds and Softmax mean what they do since here.
_OLDEST_OPSET = 13

STAGES = (
    rewrite_selections,  # before masks, which are selections
    rewrite_masks,
    rewrite_norms,  # before exponentials: it turns products with 1 / x into divisions
    rewrite_exponentials,
    rewrite_gelu,
    fold_scales,  # last: into the normalizations that came before
)


def rewrite(
    model: ir.Model, keep_fp32: Sequence[str] = (), keep_nodes: Mapping[str, str] | None = None
) -> list[str]:
    """Rewrites what FP16 cannot hold, where that changes no result.

    Args:
        model: prepared (`fp16.prepare`), float32; changed in place.
        keep_fp32: see `precision.decide`; the nodes that it names stay as they are.
        keep_nodes: see `precision.decide`; the same.

    Returns:
        What was done and why, one sentence each, with how often where it is more than once.

    Raises:
        InputError: a pattern of `keep_fp32` is no regular expression.
    """
    if model.opset_imports.get("", 1) < _OLDEST_OPSET:
        return []
    kept, names = node_matcher(keep_fp32), keep_nodes or {}
    pattern = Pattern(model, lambda node: bool(kept(node)) or (node.name or "") in names)
    for stage in STAGES:
        stage(pattern)
    if pattern.done:
        remove_unused(model)
    return [
        text if count == 1 else f"{text} ({count} times)"
        for text, count in Counter(pattern.done).items()
    ]
