"""Rewrites float32 graphs so that FP16 can hold their values; their results stay the same.

Every rewrite is exact but for float32's own rounding, and is made wherever its pattern is found:
which values FP16 cannot hold depends on data that is unknown when a file is written.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from tfmp.converters.onnx.graph import Pattern, node_matcher, remove_unused
from tfmp.converters.onnx.rewrites.exponentials import rewrite_exponentials
from tfmp.converters.onnx.rewrites.masks import rewrite_masks
from tfmp.converters.onnx.rewrites.norms import rewrite_norms
from tfmp.converters.onnx.rewrites.scales import fold_scales, scale_before
from tfmp.converters.onnx.rewrites.transposes import move_transposes
from tfmp.shared.numerics import FLOAT16, FloatFormat

# Axes of reductions, Clip's bounds and Softmax mean what they do since here.
_OLDEST_OPSET = 13

STAGES = (
    rewrite_masks,
    rewrite_norms,  # before exponentials: it turns products with 1 / x into divisions
    rewrite_exponentials,
    move_transposes,
    scale_before,
    fold_scales,  # into the normalizations that came before
)


def rewrite(
    model: ir.Model,
    keep_fp32: Sequence[str] = (),
    keep_nodes: Mapping[str, str] | None = None,
    numbers: FloatFormat = FLOAT16,
) -> list[str]:
    """Rewrites patterns whose values 16 bits cannot hold, where that changes no result.

    Args:
        model: a float32 model, prepared by `fp16.prepare`; it is changed in place.
        keep_fp32: see `rules.decide`; the nodes that it names stay as they are.
        keep_nodes: see `rules.decide`; these nodes stay as they are, too.
        numbers: the format of 16 bits.

    Returns:
        A sentence for each change and its reason, with the number of times if it is over one.

    Raises:
        InputError: a pattern of `keep_fp32` is not a regular expression.
    """
    if model.opset_imports.get("", 1) < _OLDEST_OPSET:
        return []
    kept, names = node_matcher(keep_fp32), keep_nodes or {}
    pattern = Pattern(model, lambda node: bool(kept(node)) or (node.name or "") in names, numbers)
    for stage in STAGES:
        stage(pattern)
    if pattern.done:
        remove_unused(model)
    return [
        text if count == 1 else f"{text} ({count} times)"
        for text, count in Counter(pattern.done).items()
    ]
