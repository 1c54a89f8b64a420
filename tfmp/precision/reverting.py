"""The changes that were made to a model for mixed precision, and how to undo them."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import layers, ops, tree

from tfmp.precision import layer_tree, loss_dtype, variable_dtypes
from tfmp.precision.dtype_policies import FLOAT8_PRODUCTS, NARROW_DTYPES, policy_named
from tfmp.precision.layer_tree import LayerNode
from tfmp.shared.arguments import check_model
from tfmp.shared.backend import Tensor, TensorTree, current_backend

_UNDO = "_tfmp_undo"
_ADD_LOSS = "add_loss"
_QUANTIZE = "quantize"


# The policies of layers before the first plan that changed them. By layer, not by model: of two
# models that share a layer, the second would take the first one's plan for the original.
_ORIGINAL: "weakref.WeakKeyDictionary[layers.Layer, keras.DTypePolicy]"
_ORIGINAL = weakref.WeakKeyDictionary()


@dataclass
class _Undo:
    """The state that `revert` restores; it lives on the model, outside Keras's tracking."""

    changed: dict[int, layers.Layer] = field(default_factory=dict)
    steps: dict[str, Callable[[keras.Model], None]] = field(default_factory=dict)
    overflowed: set[int] = field(default_factory=set)


def set_policies(model: keras.Model, policies: dict[layers.Layer, str]) -> None:
    """Gives layers new dtype policies, by name, and remembers their original ones.

    Functions that Keras traced before are dropped, so that `fit`, `evaluate` and `predict` trace
    anew.
    """
    new = {layer: policy_named(name).variable_dtype for layer, name in policies.items()}
    if any(layer.variable_dtype != dtype for layer, dtype in new.items()):
        variable_dtypes.check_convertible(model)
    if FLOAT8_PRODUCTS in policies.values():
        _check_not_built(model)
    undo = _record(model)
    for layer, name in policies.items():
        undo.changed[id(layer)] = layer
        _ORIGINAL.setdefault(layer, layer.dtype_policy)
        _switch(layer, policy_named(name))
    variable_dtypes.let_optimizer_follow(model)
    loss_dtype.let_loss_follow(model)
    root = layer_tree.walk(model)
    _add_float32_losses(root)
    _explain_quantization(root)
    drop_traced_functions(root)


def _check_not_built(model: keras.Model) -> None:
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and optimizer.built:
        raise ValueError(
            "A plan with float8 expects a model without an optimizer that knows its weights: Keras "
            f"adds weights for scales; model {model.name!r} has one. Apply the plan before the "
            "training, then compile: tfmp.plan(model, 'mixed_float8').apply(); model.compile(...). "
            "MixedPrecision('mixed_bfloat16') trains it."
        )


def _add_float32_losses(root: LayerNode) -> None:
    """Casts the losses that code of the user's own adds: Keras does not, and cannot sum them."""
    for node in root.within():
        layer = node.layer
        if not layer_tree.is_builtin(layer) and _ADD_LOSS not in vars(layer):
            object.__setattr__(layer, _ADD_LOSS, _Float32Losses(layer))


class _Float32Losses:
    """`layer.add_loss` in place of the method; it is dropped by copies and files."""

    def __init__(self, layer: layers.Layer) -> None:
        self._layer = weakref.ref(layer)

    def __call__(self, loss: TensorTree) -> None:
        layer = self._layer()
        assert layer is not None
        type(layer).add_loss(layer, tree.map_structure(_at_least_float32, loss))


def _explain_quantization(root: LayerNode) -> None:
    """Keras refuses to quantize FP16 layers with advice that leads back to them."""
    for node in root.within():
        method = vars(node.layer).get(_QUANTIZE)  # Keras wraps it for each layer
        if _can_be_quantized(node.layer) and not isinstance(method, _QuantizeAfterRevert):
            wrapped = _QuantizeAfterRevert(node.layer, method)
            object.__setattr__(node.layer, _QUANTIZE, wrapped)


def _can_be_quantized(layer: layers.Layer) -> bool:
    return type(layer).quantize is not layers.Layer.quantize


class _QuantizeAfterRevert:
    """`layer.quantize` in place of the method: before any layer changes, it tells what to do.

    Attributes:
        before: the layer's own attribute of that name; None without one.
    """

    def __init__(self, layer: layers.Layer, before: Callable[..., object] | None) -> None:
        self._layer = weakref.ref(layer)
        self.before = before

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        layer = self._layer()
        assert layer is not None
        asked = args[0] if args else kwargs.get("mode")
        if (asked or getattr(kwargs.get("config"), "mode", None)) == "int8":
            self._refuse_float16(layer)
        if self.before is not None:
            return self.before(*args, **kwargs)
        return type(layer).quantize(layer, *args, **kwargs)

    def _refuse_float16(self, layer: layers.Layer) -> None:
        for node in layer_tree.walk(layer).within():
            own = node.layer
            is_container = isinstance(own, keras.Model)
            if own.compute_dtype == "float16" and not is_container and _can_be_quantized(own):
                raise ValueError(
                    "quantize('int8') expects layers that compute in float32 or bfloat16, received "
                    f"{own.name!r} in float16, from training in mixed precision. Call "
                    "tfmp.revert(model) first, then model.quantize('int8'): the weights stay as "
                    "trained."
                )


def _give_quantize_back(layer: layers.Layer) -> None:
    method = vars(layer).get(_QUANTIZE)
    if not isinstance(method, _QuantizeAfterRevert):
        return
    object.__delattr__(layer, _QUANTIZE)
    if method.before is not None:
        object.__setattr__(layer, _QUANTIZE, method.before)


def _at_least_float32(loss: Tensor) -> Tensor:
    dtype = getattr(loss, "dtype", None)
    narrow = dtype is not None and keras.backend.standardize_dtype(dtype) in NARROW_DTYPES
    return ops.cast(loss, "float32") if narrow else loss


def move_to_float32(model: keras.Model, moved: list[layers.Layer]) -> None:
    """Switches layers that need float32 in training; later plans keep them there."""
    set_policies(model, dict.fromkeys(moved, "float32"))
    _record(model).overflowed.update(map(id, moved))


def overflowed_layers(model: keras.Model) -> frozenset[int]:
    """Ids of the layers that `move_to_float32` was called for, until `revert`."""
    undo = _record_of(model)
    return frozenset(undo.overflowed) if undo else frozenset()


def original_policies(root: LayerNode) -> dict[int, keras.DTypePolicy]:
    """Each layer's policy before the first `set_policies`, by id of the layer."""
    result = {}
    for node in root.within():
        policy = _original_of(node.layer)
        if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
            policy = policy[node.layer.path]
        result[id(node.layer)] = policy
    return result


def _original_of(layer: layers.Layer) -> keras.DTypePolicy:
    """The policy before the first plan; of a layer quantized since, its quantization from there."""
    now = layer.dtype_policy
    before = _ORIGINAL.get(layer, now)
    if now.quantization_mode is None or before.quantization_mode is not None:
        return before
    mode = now.name.partition("_from_")[0]
    return keras.dtype_policies.get(f"{mode}_from_{before.name}")


def revert(model: keras.Model) -> keras.Model:
    """Undoes every plan that was applied to the model, with its loss scale, exactly.

    Layers get their policies back, and the model gets its optimizer object back; weights and
    optimizer state stay as trained. A model without a plan is not changed.

    Returns:
        The model.

    Raises:
        TypeError: `model` is not a Keras model.
    """
    check_model(model)
    undo = _record_of(model)
    if undo is None:
        return model
    for layer in undo.changed.values():
        if layer in _ORIGINAL:  # unless another model that has the layer was reverted first
            _switch(layer, _original_of(layer))
            del _ORIGINAL[layer]
    undo_steps(model)
    variable_dtypes.let_optimizer_follow(model)
    loss_dtype.take_back(model)
    object.__delattr__(model, _UNDO)
    for node in layer_tree.walk(model).within():
        if _ADD_LOSS in vars(node.layer):
            object.__delattr__(node.layer, _ADD_LOSS)
        _give_quantize_back(node.layer)
    _unwrap_automatic(model)
    drop_traced_functions(layer_tree.walk(model))
    return model


def is_planned(model: keras.Model) -> bool:
    """Whether a plan or a loss scale was given to the model since it was made or loaded."""
    return _record_of(model) is not None


def on_revert(model: keras.Model, key: str, step: Callable[[keras.Model], None]) -> None:
    """Makes `revert(model)` call `step(model)`; a step under the same key is replaced."""
    _record(model).steps[key] = step


def undo_step(model: keras.Model, key: str) -> Callable[[keras.Model], None] | None:
    """The step that `on_revert` has under a key, or None."""
    undo = _record_of(model)
    return undo.steps.get(key) if undo else None


def undo_steps(model: keras.Model) -> None:
    """Runs the steps of `revert` now."""
    undo = _record_of(model)
    while undo and undo.steps:
        undo.steps.pop(next(iter(undo.steps)))(model)


def drop_traced_functions(root: LayerNode) -> None:
    """Makes every model in the tree trace its train, test and predict functions anew."""
    for node in root.within():
        if isinstance(node.layer, keras.Model):
            for name in ("train_function", "test_function", "predict_function"):
                _forget_jax_traces(getattr(node.layer, name, None))
                setattr(node.layer, name, None)


def trace_anew(model: keras.Model) -> None:
    """Has the training function of a running `fit` traced anew, with Python attributes as they are.

    On JAX `make_train_function(force=True)` would run the trace of the same step again.
    """
    drop_traced_functions(layer_tree.walk(model))
    model.make_train_function(force=True)


def _forget_jax_traces(function: object) -> None:
    """Clears the caches of the jitted functions that a Keras step function encloses.

    JAX finds traces by comparing functions, and `model.train_step` compares equal to itself: as
    long as anything refers to the old step, a new `jax.jit(model.train_step)` runs the old trace.
    """
    pending, seen = [function], {id(function)}
    while pending:
        for cell in getattr(pending.pop(), "__closure__", None) or ():
            try:
                enclosed = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if hasattr(enclosed, "clear_cache"):
                enclosed.clear_cache()
            elif id(enclosed) not in seen:
                seen.add(id(enclosed))
                pending.append(enclosed)


def _record_of(model: keras.Model) -> _Undo | None:
    return vars(model).get(_UNDO)


def _record(model: keras.Model) -> _Undo:
    if _record_of(model) is None:
        object.__setattr__(model, _UNDO, _Undo())
    return vars(model)[_UNDO]


def _unwrap_automatic(model: keras.Model) -> None:
    """Removes the wrapper that `compile` adds by itself while a model's policy is mixed_float16."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or type(optimizer) is not keras.optimizers.LossScaleOptimizer:
        return
    compiled_with = model._compile_config.config.get("optimizer")
    if model.dtype_policy.name != "mixed_float16" and compiled_with is optimizer.inner_optimizer:
        model.optimizer = optimizer.inner_optimizer


def _switch(layer: layers.Layer, policy: keras.DTypePolicy) -> None:
    """Gives a layer a policy, and its own weights the dtype that the policy has for them."""
    before = layer.variable_dtype
    _set_policy(layer, policy)
    if before != layer.variable_dtype:
        for variable in (*layer._trainable_variables, *layer._non_trainable_variables):
            if variable.dtype == before:
                current_backend().give_dtype(variable, layer.variable_dtype)


def _set_policy(layer: layers.Layer, policy: keras.DTypePolicy) -> None:
    if isinstance(layer.dtype_policy, keras.dtype_policies.DTypePolicyMap):
        # Keras's setter would write into the map, which the model's other layers share.
        layer._dtype_policy = policy
    else:
        layer.dtype_policy = policy
