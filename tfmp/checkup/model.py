"""doctor's checks of a model for training in 16 bits."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import keras
from keras import layers

from tfmp.fit import PlannedModel, preflight_findings
from tfmp.precision import (
    TENSOR_CORE_MULTIPLE,
    LayerNode,
    Size,
    ineligible_reason,
    layer_tree,
    plan,
    sizes_of,
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

# Checks of the pre-flight that have their own check here.
_OWN = ("16-bit weights", "sizes")


def narrow_nodes(planned: PlannedModel) -> list[LayerNode]:
    """The layers that would compute in 16 bits, without layers that others made for themselves."""
    return [node for node, _ in planned.narrow_layers() if node.head is None]


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
        fix = "Compile it to have its optimizer and train_step checked"
        return [*diagnoses, Finding("model", "note", "the model is not compiled", fix)]
    diagnoses += [
        replace(finding, check="model")
        for finding in preflight_findings(model, narrow)
        if finding.check not in _OWN
    ]
    return diagnoses


def check_masters(planned: PlannedModel) -> Iterable[Finding]:
    """Weights have to be float32; in 16 bits updates smaller than their spacing are lost."""
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for node in planned.root.within():
        for variable in node.layer._trainable_variables:
            counts[variable.dtype] = counts.get(variable.dtype, 0) + 1
            first.setdefault(variable.dtype, layer_tree.describe(node.path))
    narrow = sorted(set(counts) & {"float16", "bfloat16"})
    if narrow:
        dtype = narrow[0]
        yield Finding(
            "master weights",
            "problem",
            f"{counts[dtype]} trainable weights are {dtype}, first in {first[dtype]}: "
            "updates smaller than their spacing are lost",
            "Make the model under a float32 or mixed policy, so that weights are float32",
        )
    elif counts:
        shown = ", ".join(f"{count} in {dtype}" for dtype, count in sorted(counts.items()))
        yield Finding("master weights", "ok", f"trainable weights: {shown}")


def check_outputs(planned: PlannedModel) -> Iterable[Finding]:
    """The values that the loss sees should not be rounded to 16 bits."""
    if not layer_tree.is_graph(planned.model):
        return
    ids = layer_tree.output_layers(planned.root)
    nodes = [node for node in planned.root.within() if id(node.layer) in ids]
    own = [node.path for node in nodes if node.layer.compute_dtype in ("float16", "bfloat16")]
    if own:
        yield Finding(
            "outputs",
            "note",
            f"without the plan {_shown(own)} return 16 bits; the plan makes them float32",
            "Train with tfmp.MixedPrecision, or apply tfmp.plan(model)",
        )
    else:
        yield Finding("outputs", "ok", "the outputs are float32 under the plan")


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


def check_sizes(planned: PlannedModel) -> Iterable[Finding]:
    """Tensor Cores are fast if features, channels, batch and vocabulary are multiples of 8."""
    # Embeddings stay float32, but the next layer reads their results in 16 bits.
    sizes = [(node, size) for node in planned.root.within() for size in _vocabulary(node)]
    sizes += [(node, size) for node in narrow_nodes(planned) for size in sizes_of(node)]
    odd = [f"{node.path} {size}" for node, size in sizes if not size.fits]
    batch = _static_batch(planned.model)
    if batch is not None and not batch.fits:
        odd.append(str(batch))
    if odd:
        yield Finding(
            "sizes",
            "warning",
            f"not multiples of {TENSOR_CORE_MULTIPLE}, so Tensor Cores work below their full "
            f"speed: {_shown(odd)}",
            "Round them up to the padded size if the model allows it",
        )
    elif any(True for node in narrow_nodes(planned) if not ineligible_reason(node.layer)):
        yield Finding("sizes", "ok", f"every size is a multiple of {TENSOR_CORE_MULTIPLE}")


def _vocabulary(node: LayerNode) -> Iterable[Size]:
    """The sizes of an embedding: the next product reads its results, and often shares its rows."""
    if isinstance(node.layer, layers.Embedding):
        yield Size("vocabulary", node.layer.input_dim)
        yield Size("features", node.layer.output_dim)


def _static_batch(model: keras.Model) -> Size | None:
    shapes = [tensor.shape for tensor in getattr(model, "inputs", None) or ()]
    fixed = [shape[0] for shape in shapes if shape and shape[0] is not None]
    return Size("batch", fixed[0]) if fixed else None


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
    check_masters,
    check_outputs,
    check_softmax,
    check_sizes,
    check_paths,
)


def _shown(names: list[str]) -> str:
    return listed(names, _MOST_NAMED)
