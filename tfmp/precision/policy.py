"""Decides a model's precision plan, and sets Keras's global policy for a block."""

import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import keras

from tfmp.machine import devices
from tfmp.precision import layer_tree, reverting
from tfmp.precision.auto_policy import Choice, choose
from tfmp.precision.keep_float32 import Pattern, check_keep, match_keep
from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.measuring import Evidence, entry_points, gather
from tfmp.precision.plan_table import LayerPrecision, PrecisionPlan
from tfmp.precision.policy_names import (
    AUTO_BFLOAT16,
    FIXED_POLICIES,
    KEPT_POLICIES,
    check_policy,
    is_narrow,
)
from tfmp.precision.rules import Decision, Facts, decide
from tfmp.shared.arguments import check_model
from tfmp.shared.backend import TensorTree, check_64_bits, current_backend


def plan(
    model: keras.Model,
    policy: str = "auto",
    keep_float32: Pattern | Iterable[Pattern] = (),
    keep: Mapping[str, Pattern | Iterable[Pattern]] | None = None,
    data: TensorTree = None,
) -> PrecisionPlan:
    """Decides for every layer of a built model in which dtype it computes; changes nothing.

    Code that is not Keras's own is measured: the model runs once in float32 on a few rows, and then
    each piece of such code runs alone, forwards and backwards, in float32 and in 16 bits, on seeded
    numbers of the sizes seen, on larger ones, zeros and constant rows.

    Args:
        model: a Sequential, Functional or subclassed model that has its weights.
        policy: "mixed_float16", "mixed_bfloat16" or "float32"; "auto" takes FP16 if the device
            has Tensor Cores and float32 otherwise; "auto+bfloat16" takes bfloat16 if the device is
            as fast in it. "float64", "bfloat16" and "float16" (experimental, for comparison) also
            have weights, optimizer state and every layer in the dtype.
        keep_float32: layers to keep in float32: names, regular expressions over layer paths,
            layer classes, predicates, or a list of them. A layer takes the layers that it contains
            with it.
        keep: the same by dtype, {"float32": ..., "bfloat16": ..., "float16": ...}: layers that
            compute in these dtypes, on float32 weights.
        data: inputs of a batch, as the model takes them: only their shapes, whole numbers and
            powers of two count. None makes inputs for the shapes that the model was built with.

    Returns:
        The plan; print it, apply it, or take it to JSON with `to_dict`.

    Raises:
        TypeError: `model` is not a Keras model, or `policy` is not a string.
        ValueError: the model is not built, the policy is unknown, the backend is not supported, or
            a pattern matches no layer.
    """
    current_backend()  # raises for one that is not supported
    check_built(model)
    choice = resolve_policy(policy)
    root = layer_tree.walk(model)
    kept = _kept(root, keep_float32, keep)
    decisions, evidence = _decide(root, choice.policy, kept, data)
    rows = tuple(_row(node, decisions[id(node.layer)]) for node in root.within())
    unscalable = tuple(n.path for n in root.within() if id(n.layer) in evidence.unscalable)
    notes, model_of = tuple(evidence.notes), weakref.ref(model)
    return PrecisionPlan(choice.policy, choice.reason, rows, notes, unscalable, model_of)


def _decide(
    root: LayerNode, base: str, kept: Mapping[int, Decision], data: TensorTree
) -> tuple[dict[int, Decision], Evidence]:
    """The decision for each layer, by id, and the evidence."""
    facts = Facts(
        base=base,
        kept=kept,
        overflowed=reverting.overflowed_layers(root),
        original=reverting.original_policies(root),
        runs_on=(current_backend().name, devices.visible_devices()[0].kind),
    )

    def decided(evidence: Evidence) -> dict[int, Decision]:
        found: dict[int, Decision] = {}
        for node in root.within():
            found[id(node.layer)] = decide(node, replace(facts, evidence=evidence), found)
        return found

    def wanted(evidence: Evidence) -> dict[int, str | None]:
        # Weights are float32 until the plan is applied.
        policies = {key: decision.policy for key, decision in decided(evidence).items()}
        return {key: KEPT_POLICIES.get(name or "", name) for key, name in policies.items()}

    evidence = gather(root, wanted, base, data) if kept or is_narrow(base) else Evidence()
    return decided(evidence), evidence


def _kept(
    root: LayerNode,
    keep_float32: Pattern | Iterable[Pattern],
    keep: Mapping[str, Pattern | Iterable[Pattern]] | None,
) -> dict[int, Decision]:
    """The decisions of the user, by id of the layer; the most explicit argument wins."""
    check_keep(keep)
    found: dict[int, Decision] = {}
    for argument, wanted in (("keep_float32", {"float32": keep_float32}), ("keep", keep or {})):
        for key, (dtype, pattern) in match_keep(wanted, root, argument).items():
            by = f"keep {dtype}" if argument == "keep" else argument
            found[key] = Decision(KEPT_POLICIES[dtype], f"{by}: {pattern}")
    return found


@contextmanager
def policy_scope(policy: str = "auto") -> Iterator[str]:
    """Sets Keras's global dtype policy for layers that are made in the block, then restores it.

    Keras keeps its global policy per thread: the scope holds in the thread that enters it.

    Args:
        policy: as in `tfmp.plan`.

    Yields:
        The name of the policy that was set, which "auto" leaves open.
    """
    name = resolve_policy(policy).policy
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield name
    finally:
        keras.config.set_dtype_policy(before)


def floatx_of(policy: str) -> str:
    """Keras's floatx under a policy: of data, learning rates and metrics, as of weights."""
    return "float64" if policy == "float64" else "float32"


@contextmanager
def floatx_scope(policy: str) -> Iterator[None]:
    """Sets Keras's floatx in a block that makes, compiles or traces a model for a policy.

    A plan makes weights and optimizer state float64, but Keras makes the loss, learning rates and
    metrics in its floatx. It belongs to the process, not to the thread.
    """
    floatx, layers = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx(floatx_of(policy))
    if floatx_of(policy) == "float64":
        # Without a policy Keras takes floatx, and keeps it as the policy for ever.
        keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(layers)


def resolve_policy(policy: str) -> Choice:
    """The Keras policy that a name stands for here, and why."""
    check_policy(policy)
    if policy not in FIXED_POLICIES:
        return choose(devices.visible_devices(), allow_bfloat16=policy == AUTO_BFLOAT16)
    if policy == "float64":
        check_64_bits("policy 'float64'")
    reason = "asked for by name"
    if policy == "float16":
        reason += "; experimental: 16-bit weights lose small updates"
    return Choice(policy, reason)


def check_built(model: keras.Model) -> None:
    """Accepts a Keras model that has its weights.

    Raises:
        TypeError: it is something else.
        ValueError: it has no weights.
    """
    check_model(model)
    if is_built(model, wholly=False):
        return
    fix = "Call it on a batch, or model.build(input_shape), first."
    if not layer_tree.has_call(model):
        fix = (
            "It has no call: call its parts on tensors first, or fit it on TensorFlow with "
            "tfmp.MixedPrecision(), which builds it from the first batch."
        )
    raise ValueError(
        f"Model {model.name!r} is not built: it has no weights, so its layers are unknown. {fix}"
    )


def is_built(model: keras.Model, wholly: bool = True) -> bool:
    """Whether a model has its weights; without a `call`, whether all or some parts have theirs."""
    built = [entry.layer.built for entry in entry_points(layer_tree.walk(model))] or [model.built]
    return all(built) if wholly else any(built)


def _row(node: LayerNode, decision: Decision) -> LayerPrecision:
    layer = node.layer
    policy = keras.dtype_policies.get(decision.policy) if decision.policy else layer.dtype_policy
    return LayerPrecision(
        path=node.path,
        layer_class=type(layer).__name__,
        policy=decision.policy,
        compute_dtype=policy.compute_dtype,
        variable_dtype=policy.variable_dtype,
        reason=decision.reason,
    )
