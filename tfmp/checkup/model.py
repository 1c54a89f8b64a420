"""doctor's checks of a model for training in 16 bits."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import keras
from keras import layers

from tfmp.fit import PlannedModel, odd_sizes, preflight_findings
from tfmp.precision import (
    LayerNode,
    ineligible_reason,
    layer_tree,
    plan,
)
from tfmp.shared.backend import current_backend
from tfmp.shared.findings import Finding
from tfmp.shared.wording import listed

# Lists are cut after so many names: they fit a line or two.
_MOST_NAMED = 6

# Their softmax computes in the layer's dtype on TensorFlow, in float32 on JAX and PyTorch.
_ATTENTION = (
    layers.MultiHeadAttention,
    layers.GroupQueryAttention,
    layers.Attention,
    layers.AdditiveAttention,
)


def narrow_nodes(planned: PlannedModel) -> list[LayerNode]:
    """The layers that would compute in 16 bits, without layers that others made for themselves."""
    return [node for node in planned.narrow_layers() if node.head is None]


def check_model(model: keras.Model) -> list[Finding]:
    """The findings about a model: its plan, and the obstacles to training it in 16 bits."""
    made = plan(model)
    narrow = plan(model, "mixed_float16") if made.policy == "float32" else made
    planned = PlannedModel(model, layer_tree.walk(model), narrow)
    kept = len(narrow.kept_float32())
    summary = f"{len(narrow.rows)} layers, {kept} of them float32 under {narrow.policy}"
    diagnoses = [Finding("model", "ok", f"{summary}; policy='auto' takes {made.policy} here")]
    diagnoses += [finding for check in CHECKS for finding in check(planned)]
    if not model.compiled:
        fix = "Compile it to have its optimizer checked"
        return [*diagnoses, Finding("model", "note", "the model is not compiled", fix)]
    found = preflight_findings(model, narrow)
    return diagnoses + [replace(one, check="model") for one in found if one.check != "sizes"]


def check_softmax(planned: PlannedModel) -> Iterable[Finding]:
    """The exponentials and sums of a softmax need float32."""
    rows = {row.path: row for row in planned.plan.rows}
    found = [
        node for node in planned.root.within() if node.head is None and _has_softmax(node.layer)
    ]
    wide = [node for node in found if rows[node.path].compute_dtype in ("float32", "float64")]
    narrow = [node.path for node in found if node not in wide]
    if narrow:
        yield Finding(
            "softmax",
            "warning",
            f"softmax would be computed in 16 bits in {_shown(narrow)}",
            "Keep them in float32: keep_float32=[...]",
        )
    elif found:
        yield Finding("softmax", "ok", f"in float32: {_shown([node.path for node in found])}")
    inside = [node.path for node in narrow_nodes(planned) if isinstance(node.layer, _ATTENTION)]
    if inside and current_backend().softmax_is_narrow:
        yield Finding(
            "softmax",
            "note",
            f"the softmax inside {_shown(inside)} is computed in 16 bits, like its layer",
            "This is usual in Keras; pass keep_float32=[...] if attention has to be exact",
        )


def _has_softmax(layer: layers.Layer) -> bool:
    if isinstance(layer, layers.Softmax):
        return True
    softmax = (keras.activations.softmax, keras.activations.log_softmax)
    return getattr(layer, "activation", None) in softmax


def check_paths(planned: PlannedModel) -> Iterable[Finding]:
    """Layers with many weights or multiplications that Tensor Cores cannot compute."""
    reasons: dict[str, list[str]] = {}
    for node in narrow_nodes(planned):
        reason = ineligible_reason(node.layer)
        heavy = (
            reason
            and reason != "no matrix product"
            and not isinstance(node.layer, layers.Embedding)
        )
        if heavy:
            reasons.setdefault(reason, []).append(node.path)
    for reason, paths in reasons.items():
        yield Finding(
            "Tensor Core path",
            "note",
            f"Tensor Cores cannot compute {_shown(paths)} ({reason})",
            "Try full convolutions with as many channels: these layers only save memory traffic",
        )


CHECKS: tuple[Callable[[PlannedModel], Iterable[Finding]], ...] = (
    check_softmax,
    partial(odd_sizes, of_data=True),
    check_paths,
)


def _shown(names: list[str]) -> str:
    return listed(names, _MOST_NAMED)
