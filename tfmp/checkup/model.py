"""doctor's checks of a model: what it would be like to train it in 16 bits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

from tfmp.checkup.report import Diagnosis
from tfmp.fit import Situation as Preflight, preflight_findings, vanishing_epsilons
from tfmp.precision import (
    TENSOR_CORE_MULTIPLE,
    LayerNode,
    LayerPrecision,
    PrecisionPlan,
    Size,
    layer_tree,
    plan,
    sizes_of,
    why_none,
)
from tfmp.shared.wording import listed

# Of what is listed, as many as fit a line or two.
_MOST_NAMED = 6

# On TensorFlow their softmax has the layer's own dtype; on JAX it is computed in float32.
_ATTENTION = (
    layers.MultiHeadAttention,
    layers.GroupQueryAttention,
    layers.Attention,
    layers.AdditiveAttention,
)

# Findings of the pre-flight that have a check of their own here.
_OWN = ("16-bit weights", "vanishing epsilon", "sizes")


@dataclass(frozen=True)
class Patient:
    """What the checks look at.

    Attributes:
        model: built.
        root: its layers.
        plan: what `tfmp.plan` makes of it in 16 bits.
    """

    model: keras.Model
    root: LayerNode
    plan: PrecisionPlan

    def narrow(self) -> Iterable[tuple[LayerNode, LayerPrecision]]:
        """The layers that would compute in 16 bits, not those that others made for themselves."""
        rows = {row.path: row for row in self.plan.rows}
        for node in self.root.within():
            row = rows[node.path]
            if node.head is None and row.compute_dtype in ("float16", "bfloat16"):
                yield node, row


def check_model(model: Any) -> list[Diagnosis]:
    """A model's plan, and what speaks against training or running it in 16 bits."""
    made = plan(model)
    narrow = plan(model, "mixed_float16") if made.policy == "float32" else made
    patient = Patient(model, layer_tree.walk(model), narrow)
    kept = len(narrow.kept_float32())
    summary = f"{len(narrow.rows)} layers, {kept} of them float32 under {narrow.policy}"
    diagnoses = [Diagnosis("model", "ok", f"{summary}; policy='auto' takes {made.policy} here")]
    diagnoses += [diagnosis for check in CHECKS for diagnosis in check(patient)]
    if not model.compiled:
        mend = "Compile it for the checks of optimizer and train_step"
        return [*diagnoses, Diagnosis("model", "note", "the model is not compiled", mend)]
    diagnoses += [
        Diagnosis("model", "warning", finding.message, finding.mend)
        for finding in preflight_findings(model, narrow)
        if finding.check not in _OWN
    ]
    return diagnoses


def check_masters(patient: Patient) -> Iterable[Diagnosis]:
    """Weights have to be float32, or updates smaller than their spacing are lost."""
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for node in patient.root.within():
        for variable in node.layer._trainable_variables:
            counts[variable.dtype] = counts.get(variable.dtype, 0) + 1
            first.setdefault(variable.dtype, layer_tree.describe(node.path))
    narrow = sorted(set(counts) & {"float16", "bfloat16"})
    if narrow:
        dtype = narrow[0]
        yield Diagnosis(
            "master weights",
            "problem",
            f"{counts[dtype]} trainable weights are {dtype}, those of {first[dtype]} first: "
            "updates smaller than their spacing are lost",
            "Make the model under a float32 or mixed policy, so that weights are float32",
        )
    elif counts:
        shown = ", ".join(f"{count} in {dtype}" for dtype, count in sorted(counts.items()))
        yield Diagnosis("master weights", "ok", f"trainable weights: {shown}")


def check_outputs(patient: Patient) -> Iterable[Diagnosis]:
    """What the loss sees should not have been rounded to 16 bits."""
    ids = layer_tree.output_layers(patient.root)
    names = [node.path for node, _ in patient.narrow() if id(node.layer) in ids]
    if layer_tree.is_graph(patient.model) and names:
        yield Diagnosis(
            "outputs",
            "warning",
            f"outputs come in 16 bits from {_shown(names)}",
            "Keep these layers in float32: keep_float32=[...], or dtype='float32'",
        )
    elif layer_tree.is_graph(patient.model):
        own = {
            node.path: node.layer.compute_dtype
            for node in patient.root.within()
            if id(node.layer) in ids and node.layer.compute_dtype in ("float16", "bfloat16")
        }
        if own:
            yield Diagnosis(
                "outputs",
                "note",
                f"as the model is, {_shown(list(own))} return 16 bits; the plan makes them float32",
                "Train with tfmp.MixedPrecision, or apply tfmp.plan(model)",
            )
        else:
            yield Diagnosis("outputs", "ok", "the outputs are float32 under the plan")


def check_softmax(patient: Patient) -> Iterable[Diagnosis]:
    """A softmax's exponentials and sums want float32."""
    rows = {row.path: row for row in patient.plan.rows}
    found = [
        node for node in patient.root.within() if node.head is None and _has_softmax(node.layer)
    ]
    wide = [node for node in found if rows[node.path].compute_dtype in ("float32", "float64")]
    narrow = [node.path for node in found if node not in wide]
    if narrow:
        yield Diagnosis(
            "softmax",
            "warning",
            f"softmax would be computed in 16 bits in {_shown(narrow)}",
            "Keep them in float32: keep_float32=[...]",
        )
    elif found:
        yield Diagnosis("softmax", "ok", f"in float32: {_shown([node.path for node in found])}")
    inside = [node.path for node, _ in patient.narrow() if isinstance(node.layer, _ATTENTION)]
    if inside and keras.backend.backend() == "tensorflow":
        yield Diagnosis(
            "softmax",
            "note",
            f"the softmax inside {_shown(inside)} is computed in 16 bits, as its layer is",
            "Usual, and what Keras does; keep_float32=[...] where attention has to be exact",
        )


def _has_softmax(layer: layers.Layer) -> bool:
    if isinstance(layer, layers.Softmax):
        return True
    softmax = (keras.activations.softmax, keras.activations.log_softmax)
    return getattr(layer, "activation", None) in softmax


def check_sizes(patient: Patient) -> Iterable[Diagnosis]:
    """Features, channels, batch and vocabulary in multiples of 8 keep Tensor Cores at speed."""
    # Embeddings stay float32 themselves, but what they make is read in 16 bits.
    sizes = [(node, size) for node in patient.root.within() for size in _vocabulary(node)]
    sizes += [(node, size) for node, _ in patient.narrow() for size in sizes_of(node)]
    odd = [f"{node.path} {size}" for node, size in sizes if not size.fits]
    batch = _static_batch(patient.model)
    if batch is not None and not batch.fits:
        odd.append(str(batch))
    if odd:
        yield Diagnosis(
            "sizes",
            "warning",
            f"no multiples of {TENSOR_CORE_MULTIPLE}, so Tensor Cores work below their speed: "
            + _shown(odd),
            "Round them up to the padded size where the model allows it",
        )
    elif any(True for node, _ in patient.narrow() if not why_none(node.layer)):
        yield Diagnosis("sizes", "ok", f"every size is a multiple of {TENSOR_CORE_MULTIPLE}")


def _vocabulary(node: LayerNode) -> Iterable[Size]:
    """What an embedding makes is what the next product reads; its rows are often tied to one."""
    if isinstance(node.layer, layers.Embedding):
        yield Size("vocabulary", node.layer.input_dim)
        yield Size("features", node.layer.output_dim)


def _static_batch(model: keras.Model) -> Size | None:
    shapes = [tensor.shape for tensor in getattr(model, "inputs", None) or ()]
    fixed = [shape[0] for shape in shapes if shape and shape[0] is not None]
    return Size("batch", fixed[0]) if fixed else None


def check_paths(patient: Patient) -> Iterable[Diagnosis]:
    """Layers with many weights or multiplications that Tensor Cores cannot take."""
    reasons: dict[str, list[str]] = {}
    for node, _ in patient.narrow():
        reason = why_none(node.layer)
        heavy = (
            reason
            and reason != "no matrix product"
            and not isinstance(node.layer, layers.Embedding)
        )
        if heavy:
            reasons.setdefault(reason, []).append(node.path)
    for reason, paths in reasons.items():
        yield Diagnosis(
            "Tensor Core path",
            "note",
            f"none for {_shown(paths)} ({reason})",
            "They gain memory traffic only; full convolutions of as many channels may be as fast",
        )


def check_epsilons(patient: Patient) -> Iterable[Diagnosis]:
    """An epsilon that is 0 in 16 bits protects nothing from dividing by 0."""
    situation = Preflight(patient.model, patient.root, patient.plan)
    for finding in vanishing_epsilons(situation):
        yield Diagnosis("epsilon", "problem", finding.message, finding.mend)


CHECKS: tuple[Callable[[Patient], Iterable[Diagnosis]], ...] = (
    check_masters,
    check_outputs,
    check_softmax,
    check_sizes,
    check_paths,
    check_epsilons,
)


def _shown(names: list[str]) -> str:
    return listed(names, _MOST_NAMED)
