"""Checks of a model before a mixed-precision `fit` begins; each finding comes with its fix."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import keras

from tfmp.nonfinite import search_data
from tfmp.precision import (
    NARROW_DTYPES,
    TENSOR_CORE_MULTIPLE,
    LayerNode,
    LayerPrecision,
    PrecisionPlan,
    is_graph,
    is_narrow,
    layer_tree,
    padded_sizes,
    sizes_of,
)
from tfmp.precision.measuring import FAILED_DRY_RUN
from tfmp.shared.backend import TensorTree, current_backend
from tfmp.shared.findings import Finding
from tfmp.shared.wording import joined, listed

UNSCALABLE = "gradients that cannot be scaled"
UNSCALED_STEP = "train_step without loss scaling"

# Sizes that the code of a model chooses.
_CHOSEN = ("units", "filters", "key_dim", "value_dim", "head_dim")


@dataclass(frozen=True)
class PlannedModel:
    """A model and its plan, for the checks.

    Attributes:
        model: the model as it is before the plan.
        root: the tree of its layers.
        plan: the plan that is about to be applied.
    """

    model: keras.Model
    root: LayerNode
    plan: PrecisionPlan

    def layers(self) -> Iterable[tuple[LayerNode, LayerPrecision]]:
        """The layers that compute, which graphs do not, with their rows of the plan."""
        rows = {row.path: row for row in self.plan.rows}
        for node in self.root.within():
            if not is_graph(node.layer):
                yield node, rows[node.path]

    def narrow_layers(self) -> list[LayerNode]:
        """The layers that compute in 16 bits under the plan."""
        return [node for node, row in self.layers() if row.compute_dtype in NARROW_DTYPES]


Check = Callable[[PlannedModel], Iterable[Finding]]


def preflight_findings(model: keras.Model, plan: PrecisionPlan) -> tuple[Finding, ...]:
    """Runs every check that needs no data.

    Args:
        model: compiled and built, without the plan, so that the checks see its own faults too.
        plan: the plan that was made for this model.
    """
    planned = PlannedModel(model, layer_tree.walk(model), plan)
    checks = CHECKS if planned.narrow_layers() else CHECKS_OF_FLOAT32
    return tuple(finding for check in checks for finding in check(planned))


def unscaled_step(model: keras.Model, names: list[str]) -> Finding:
    """The finding for a model whose training step takes gradients of the unscaled loss.

    Args:
        model: the model.
        names: the optimizers that got such gradients, as its code names them.
    """
    each = " the optimizer that applies them:" if len(names) > 1 else ""
    scope = ""
    if current_backend().is_stateless:
        mapping = f"zip({names[0]}.variables, optimizer_variables)"
        scope = f" within keras.StatelessScope(state_mapping={mapping})"
    return Finding(
        UNSCALED_STEP,
        "warning",
        f"{type(model).__name__}.train_step never calls scale_loss: its loss scale stays 1, "
        "and small gradients are lost in FP16",
        f"In train_step, take the gradients of{each and ' a loss scaled by'}{each} "
        + joined([f"{name}.scale_loss(loss)" for name in names])
        + scope,
    )


def narrow_losses(planned: PlannedModel) -> Iterable[Finding]:
    """Losses that a container's own code adds in 16 bits; the plan handles losses of layers."""
    for note in planned.plan.notes:
        message, _, fix = note.partition(": ")
        yield Finding("plan", "warning", message, fix[:1].upper() + fix[1:])


def narrow_weights(planned: PlannedModel) -> Iterable[Finding]:
    """A pure policy, and layers that have 16-bit weights of their own, lose small updates."""
    rows = {row.path: row for row in planned.plan.rows}
    for node in planned.root.within():
        dtype = rows[node.path].variable_dtype
        if dtype in NARROW_DTYPES and node.layer._trainable_variables:
            yield Finding(
                "16-bit weights",
                "problem",
                f"The weights of {layer_tree.describe(node.path)} are {dtype}: updates smaller "
                "than their spacing are lost",
                "Take a mixed policy, whose weights are float32, for more than a comparison",
            )
            return


def kernels_in_float32(planned: PlannedModel) -> Iterable[Finding]:
    """A model whose products are in float32 trains hardly faster, however many layers are not.

    Code of the user's own that fails in 16 bits, as a raw operator of TensorFlow, which takes one
    dtype, is told though it is a small part of the model.
    """
    rows = {row.path: row for row in planned.plan.rows}
    kernels = [pair for pair in planned.layers() if _has_kernel(pair[0].layer)]
    wide = [(node, row) for node, row in kernels if row.compute_dtype == "float32"]
    # A part says no more than whose part it is.
    reasons = [rows[node.head.path if node.head else node.path].reason for node, _ in wide]
    failed = [reason for reason in reasons if reason.startswith(FAILED_DRY_RUN)]
    is_little = len(wide) <= len(kernels) / 2
    if not is_narrow(planned.plan.policy) or (is_little and not failed):
        return
    ((reason, _),) = Counter(failed or reasons).most_common(1)
    names = listed([layer_tree.describe(node.path) for node, _ in wide], 3)
    fix = f"print(tfmp.plan(model, {planned.plan.policy!r})) tells the reason for each layer"
    if failed:
        fix = (
            "Where it joins 16-bit and float32 tensors, cast one: keras.ops.cast(c, x.dtype). Or "
            "call keras.ops.multiply and the like, which take both; tf functions and a * b do not"
        )
    yield Finding(
        "kernels in float32",
        "note" if len(wide) < len(kernels) and not failed else "warning",
        f"{len(kernels) - len(wide)} of {len(kernels)} layers with kernels multiply in 16 bits: "
        f"{names} {'stays' if len(wide) == 1 else 'stay'} in float32, mostly for this reason: "
        f"{reason.rstrip('.')}",
        fix,
    )


def _has_kernel(layer: keras.layers.Layer) -> bool:
    if isinstance(layer, keras.layers.Embedding):
        return False  # a lookup multiplies nothing
    return any(len(variable.shape) > 1 for variable in layer._trainable_variables)


def odd_sizes(planned: PlannedModel, of_data: bool = False) -> Iterable[Finding]:
    """Sizes that Tensor Cores have to pad.

    Args:
        planned: the model and its plan.
        of_data: also looks at what comes with the data: features, vocabularies and the batch.
    """
    sizes = [(node.path, _vocabulary(node.layer)) for node in planned.root.within()]
    narrow = [node for node in planned.narrow_layers() if node.head is None]
    sizes += [(node.path, sizes_of(node)) for node in narrow]
    odd = []
    for path, found in sizes:
        told = {name: size for name, size in found.items() if of_data or name in _CHOSEN}
        odd += [f"{path} {text}" for text in padded_sizes(told)]
    shapes = [tensor.shape for tensor in getattr(planned.model, "inputs", None) or ()]
    if of_data and shapes and shapes[0] and shapes[0][0]:
        odd += padded_sizes({"batch": shapes[0][0]})
    if odd:
        yield Finding(
            "sizes",
            "warning",
            f"Not multiples of {TENSOR_CORE_MULTIPLE}, so Tensor Cores work below their speed: "
            + listed(odd, 6 if of_data else 3),
            "Round them up to the padded size where the model allows it",
        )


def _vocabulary(layer: keras.layers.Layer) -> dict[str, int]:
    """The sizes of an embedding: the next product reads its results, and often shares its rows."""
    if not isinstance(layer, keras.layers.Embedding):
        return {}
    return {"vocabulary": layer.input_dim, "features": layer.output_dim}


def unscalable_gradients(planned: PlannedModel) -> Iterable[Finding]:
    """A custom gradient that clips what flows back is written for the gradients of the loss."""
    if paths := planned.plan.unscalable:
        names = listed([layer_tree.describe(path) for path in paths], 3)
        yield Finding(
            UNSCALABLE,
            "warning",
            f"The gradients of {names} do not grow with the loss scale: a custom gradient clips or "
            "changes them by fixed amounts. The loss scale is 1, so small gradients may be lost in "
            "FP16",
            "Pass policy='mixed_bfloat16', which needs no loss scale, or remove the fixed amounts "
            "from that gradient",
        )


# A plan that keeps every layer in float32 trains as float32 does, with its scaling or without.
CHECKS_OF_FLOAT32: tuple[Check, ...] = (narrow_losses, kernels_in_float32)

CHECKS: tuple[Check, ...] = (
    narrow_losses,
    narrow_weights,
    unscalable_gradients,
    kernels_in_float32,
    odd_sizes,
)


def not_finite_data(batch: TensorTree) -> list[Finding]:
    """The finding about a batch with NaN or infinities."""
    found = search_data(*keras.utils.unpack_x_y_sample_weight(batch))
    if found is None:
        return []
    message = (
        f"{found.what} of the first batch, {found.why}. Unless the model or its loss replaces "
        "them, the step is skipped; in float32 it would ruin the weights"
    )
    return [Finding("data not finite", "warning", message, found.advice.rstrip("."))]
