"""The precision plan of a model: which layer computes in which dtype, and why; apply and revert."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import layers

from tfmp import hardware, structure
from tfmp.auto import Choice, choose
from tfmp.keep import Pattern, match_keep_float32
from tfmp.rules import Decision, Facts, decide
from tfmp.structure import LayerNode

POLICIES = ("auto", "auto+bfloat16", "mixed_float16", "mixed_bfloat16", "float32", "float64")


@dataclass(frozen=True)
class LayerPrecision:
    """One row of a plan.

    Attributes:
        path: names of the containing layers and the layer's own, joined by "/"; "/" is the model.
        layer_class: the layer's class name.
        policy: the Keras dtype policy that the layer gets; None for a layer left as it is.
        compute_dtype: what the layer computes in.
        variable_dtype: what its weights are kept in; no plan changes it.
        reason: why, in half a sentence.
    """

    path: str
    layer_class: str
    policy: str | None
    compute_dtype: str
    variable_dtype: str
    reason: str


@dataclass(frozen=True)
class PrecisionPlan:
    """Which layer of a model computes in which dtype.

    Printed, it is a table. `to_dict` and `from_dict` round-trip it through JSON.

    Attributes:
        policy: name of the Keras dtype policy of all layers without a reason against it.
        reason: why this policy.
        rows: one a layer, owners before what they contain.
    """

    policy: str
    reason: str
    rows: tuple[LayerPrecision, ...]
    _model: "weakref.ref[keras.Model] | None" = field(default=None, compare=False, repr=False)

    def apply(self, model: keras.Model | None = None) -> keras.Model:
        """Switches the layers to the plan's dtypes, in place and undone by `revert`.

        Variables stay the same objects. Functions that Keras traced before are dropped, so that
        `fit`, `evaluate` and `predict` trace anew.

        Args:
            model: the model, if not the one that was planned: a copy of it.

        Returns:
            The model.

        Raises:
            ValueError: the plan does not fit the model, or has none.
        """
        model = self._target(model)
        tree = structure.walk(model)
        undo = _undo_of(model) or _Undo()
        for node, row in _pair(tree, self.rows):
            if row.policy is not None:
                undo.policies.setdefault(id(node.layer), (node.layer, node.layer.dtype_policy))
                _set_policy(node.layer, keras.DTypePolicy(row.policy))
        object.__setattr__(model, _UNDO, undo)
        drop_traced_functions(tree)
        return model

    def kept_float32(self) -> tuple[LayerPrecision, ...]:
        """The rows that a rule keeps in float32 against the plan's policy."""
        if self.policy == "float32":
            return ()
        return tuple(row for row in self.rows if row.policy == "float32")

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain lists, strings and None."""
        return {
            "policy": self.policy,
            "reason": self.reason,
            "layers": [vars(row).copy() for row in self.rows],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PrecisionPlan":
        """The plan that `to_dict` wrote; `apply` then needs the model."""
        return cls(
            policy=data["policy"],
            reason=data["reason"],
            rows=tuple(LayerPrecision(**row) for row in data["layers"]),
        )

    def __str__(self) -> str:
        header = ("layer", "class", "computes in", "weights", "because")
        cells = [header] + [
            (row.path, row.layer_class, row.compute_dtype, row.variable_dtype, row.reason)
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(map(str.ljust, line, widths)).rstrip()
            for line in (header, ["-" * width for width in widths], *cells[1:])
        ]
        return "\n".join((f"{self.policy}: {self.reason}", *lines))

    def _target(self, model: keras.Model | None) -> keras.Model:
        model = model if model is not None else (self._model() if self._model else None)
        if model is None:
            raise ValueError(
                "This plan has no model: it was read from a dict, or its model is gone. "
                "Pass one: plan.apply(model)."
            )
        return model


def plan(
    model: keras.Model,
    policy: str = "auto",
    keep_float32: Pattern | Iterable[Pattern] = (),
) -> PrecisionPlan:
    """Decides for every layer of a built model in which dtype it computes; changes nothing.

    Args:
        model: Sequential, Functional or subclassed, with its weights made.
        policy: "mixed_float16", "mixed_bfloat16", "float32" or "float64"; "auto" takes FP16 where
            the device has Tensor Cores and float32 elsewhere; "auto+bfloat16" takes bfloat16 where
            the device is as fast in it.
        keep_float32: layers to keep in float32: names, regular expressions over layer paths,
            layer classes, predicates, or a list of them. They take what they contain with them.

    Returns:
        The plan, for `print`, `apply` or `to_dict`.

    Raises:
        TypeError: `model` is no Keras model, or `policy` no string.
        ValueError: the model is not built, the policy unknown, the backend unsupported, or a
            pattern matches nothing.
    """
    check_backend()
    _check_built(model)
    choice = resolve_policy(policy)
    tree = structure.walk(model)
    decisions: dict[int, Decision] = {}
    facts = Facts(
        base=choice.policy,
        kept=match_keep_float32(keep_float32, tree),
        outputs=frozenset(structure.output_layers(model, tree)),
        original=_original_policies(model, tree),
        decided=decisions,
    )
    for node in tree.within():
        decisions[id(node.layer)] = decide(node, facts)
    rows = tuple(_row(node, decisions[id(node.layer)]) for node in tree.within())
    return PrecisionPlan(choice.policy, choice.reason, rows, weakref.ref(model))


def revert(model: keras.Model) -> keras.Model:
    """Undoes every plan applied to the model, and what came with them, exactly.

    Layers get back the policies, and the model the optimizer object, that they had before; weights
    and optimizer state stay as trained. A model without a plan is left alone.
    """
    undo = _undo_of(model)
    if undo is None:
        return model
    for layer, original in undo.policies.values():
        _set_policy(layer, original)
    for step in undo.steps.values():
        step(model)
    object.__delattr__(model, _UNDO)
    _unwrap_automatic(model)
    drop_traced_functions(structure.walk(model))
    return model


def on_revert(model: keras.Model, key: str, step: Callable[[keras.Model], None]) -> None:
    """Has `revert(model)` call `step(model)`, in place of an earlier step under the same key."""
    undo = _undo_of(model)
    if undo is None:
        undo = _Undo()
        object.__setattr__(model, _UNDO, undo)
    undo.steps[key] = step


def undo_step(model: keras.Model, key: str) -> Any:
    """The step that `on_revert` was given under a key, or None."""
    undo = _undo_of(model)
    return undo.steps.get(key) if undo else None


def undo_now(model: keras.Model, key: str) -> None:
    """Runs one step of `revert` ahead of the others, if there is one under the key."""
    undo = _undo_of(model)
    if undo and key in undo.steps:
        undo.steps.pop(key)(model)


@contextmanager
def policy_scope(policy: str = "auto") -> Iterator[str]:
    """Sets Keras's global dtype policy for the layers made inside, and restores it in any case.

    Keras keeps its global policy per thread: the scope holds in the thread that enters it.

    Args:
        policy: as in `plan`.

    Yields:
        The name of the policy set, which "auto" leaves open.
    """
    name = resolve_policy(policy).policy
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield name
    finally:
        keras.config.set_dtype_policy(before)


def resolve_policy(policy: str) -> Choice:
    """The Keras policy that a name stands for here, and why."""
    check_policy(policy)
    if policy.startswith("auto"):
        return choose(hardware.devices(), allow_bfloat16=policy == "auto+bfloat16")
    return Choice(policy, "as asked")


def check_policy(policy: Any) -> None:
    """Raises TypeError or ValueError on what is no policy's name."""
    if not isinstance(policy, str):
        raise TypeError(
            f"policy expects a string, received {policy!r} of type {type(policy).__name__}. "
            f"Pass one of: {', '.join(POLICIES)}."
        )
    if policy not in POLICIES:
        raise ValueError(
            f"policy expects one of {', '.join(POLICIES)}; received {policy!r} of type str. "
            "'mixed_float16' is FP16 with float32 weights; 'auto' chooses by the device."
        )


def check_backend() -> None:
    """Raises ValueError on a Keras backend whose training loop this package does not know."""
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        raise ValueError(
            f"tfmp expects the Keras backend tensorflow or jax, received {backend!r}. "
            "Set the environment variable KERAS_BACKEND=tensorflow before Keras is imported."
        )


def drop_traced_functions(tree: LayerNode) -> None:
    """Makes every model in the tree trace its train, test and predict functions anew."""
    for node in tree.within():
        if isinstance(node.layer, keras.Model):
            for name in ("train_function", "test_function", "predict_function"):
                setattr(node.layer, name, None)


_UNDO = "_tfmp_undo"


@dataclass
class _Undo:
    """What `revert` restores; it lives on the model, outside Keras's tracking."""

    policies: dict[int, tuple[layers.Layer, keras.DTypePolicy]] = field(default_factory=dict)
    steps: dict[str, Callable[[keras.Model], None]] = field(default_factory=dict)


def _undo_of(model: keras.Model) -> _Undo | None:
    return vars(model).get(_UNDO)


def _unwrap_automatic(model: keras.Model) -> None:
    """Removes the wrapper that `compile` adds by itself while a model's policy is mixed_float16."""
    optimizer: Any = getattr(model, "optimizer", None)
    if type(optimizer) is not keras.optimizers.LossScaleOptimizer:
        return
    compiled_with = model._compile_config.config.get("optimizer")
    if model.dtype_policy.name != "mixed_float16" and compiled_with is optimizer.inner_optimizer:
        model.optimizer = optimizer.inner_optimizer


def _set_policy(layer: layers.Layer, policy: keras.DTypePolicy) -> None:
    if isinstance(layer.dtype_policy, keras.dtype_policies.DTypePolicyMap):
        # Keras's setter would write into the map, which the model's other layers share.
        layer._dtype_policy = policy
    else:
        layer.dtype_policy = policy


def _original_policies(model: keras.Model, tree: LayerNode) -> dict[int, keras.DTypePolicy]:
    undo = _undo_of(model) or _Undo()
    result = {}
    for node in tree.within():
        _, policy = undo.policies.get(id(node.layer), (None, node.layer.dtype_policy))
        if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
            policy = policy[node.layer.path]
        result[id(node.layer)] = policy
    return result


def _row(node: LayerNode, decision: Decision) -> LayerPrecision:
    layer = node.layer
    policy = keras.DTypePolicy(decision.policy) if decision.policy else layer.dtype_policy
    own = {variable.dtype for variable in layer._trainable_variables if variable.dtype}
    return LayerPrecision(
        path=node.path,
        layer_class=type(layer).__name__,
        policy=decision.policy,
        compute_dtype=policy.compute_dtype,
        variable_dtype=next(iter(own)) if len(own) == 1 else policy.variable_dtype,
        reason=decision.reason,
    )


def _check_built(model: Any) -> None:
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"Expected a keras.Model, received {model!r} of type {type(model).__name__}. "
            "Pass the model itself."
        )
    if not model.built:
        raise ValueError(
            f"Model {model.name!r} is not built: it has no weights yet, so its layers are unknown. "
            "Call it on a batch, or model.build(input_shape), first."
        )


def _pair(
    tree: LayerNode, rows: tuple[LayerPrecision, ...]
) -> Iterator[tuple[LayerNode, LayerPrecision]]:
    """Brings layers and rows together: by path, or else by place where the classes agree."""
    nodes = list(tree.within())
    by_path = {row.path: row for row in rows}
    if all(node.path in by_path for node in nodes) and len(nodes) == len(rows):
        return iter([(node, by_path[node.path]) for node in nodes])
    # A model made a second time by the same code has other automatic names, dense_1 for dense.
    classes = [type(node.layer).__name__ for node in nodes]
    if classes == [row.layer_class for row in rows]:
        return zip(nodes, rows, strict=True)
    missing = [row.path for row in rows if row.path not in {node.path for node in nodes}]
    extra = [node.path for node in nodes if node.path not in by_path]
    raise ValueError(
        f"The plan does not fit the model: expected {len(rows)} layers, received {len(nodes)}; "
        f"only in the plan: {', '.join(missing[:3]) or 'none'}; "
        f"only in the model: {', '.join(extra[:3]) or 'none'}. "
        "Make a plan for this model: tfmp.plan(model)."
    )
