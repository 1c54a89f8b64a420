"""The changes that were made to a model for mixed precision, and how to undo them."""

import weakref
from collections.abc import Callable
from functools import partial

import keras
from keras import layers, ops, tree

from tfmp.precision import layer_tree
from tfmp.precision.layer_tree import LayerNode
from tfmp.shared.arguments import check_model
from tfmp.shared.backend import Tensor, TensorTree, current_backend

# Where the steps of `revert` live: on the model, outside Keras's tracking.
_STEPS = "_tfmp_undo"

# The policies of layers before the first plan that changed them. By layer, not by model: of two
# models that share a layer, the second would take the first one's plan for the original.
_ORIGINAL: "weakref.WeakKeyDictionary[layers.Layer, keras.DTypePolicy]"
_ORIGINAL = weakref.WeakKeyDictionary()

# The layers that needed float32 in training, until `revert`.
_OVERFLOWED: "weakref.WeakSet[layers.Layer]" = weakref.WeakSet()

# The methods that a planned model has in place of Keras's, by name.
_ADD_LOSS, _AGGREGATE = "add_loss", "_aggregate_additional_loss"


def set_policies(model: keras.Model, policies: dict[layers.Layer, str]) -> None:
    """Gives layers new dtype policies, by name, and remembers their original ones.

    Functions that Keras traced before are dropped, so that `fit`, `evaluate` and `predict` trace
    anew.
    """
    new = {layer: keras.dtype_policies.get(name).variable_dtype for layer, name in policies.items()}
    if any(layer.variable_dtype != dtype for layer, dtype in new.items()):
        _check_convertible(model)
    for layer, name in policies.items():
        _ORIGINAL.setdefault(layer, layer.dtype_policy)
        _switch(layer, keras.dtype_policies.get(name))
    _let_optimizer_follow(model)
    root = layer_tree.walk(model)
    _let_losses_meet(root)
    drop_traced_functions(root)


def _check_convertible(model: keras.Model) -> None:
    """Refuses models whose variables cannot get another dtype."""
    if current_backend().mirrored(model.variables):
        raise ValueError(
            "A plan with weights in another dtype expects variables on one device; those of model "
            f"{model.name!r} are mirrored. Make the model in the strategy's scope under "
            "keras.config.set_dtype_policy('float16'), for example, or plan a mixed policy."
        )


def _let_losses_meet(root: LayerNode) -> None:
    """Casts what layers add to the loss: Keras cannot sum numbers of several dtypes.

    These are losses that code of the user's own adds, and penalties of weights and results.
    """
    if isinstance(root.layer, keras.Model):
        object.__setattr__(root.layer, _AGGREGATE, partial(_aggregated, root.layer))
    for node in root.within():
        if not layer_tree.is_builtin(node.layer):
            object.__setattr__(node.layer, _ADD_LOSS, partial(_added, node.layer))


def _aggregated(model: keras.Model, loss: Tensor) -> Tensor:
    return _as_floatx(type(model)._aggregate_additional_loss(model, loss))


def _added(layer: layers.Layer, loss: TensorTree) -> None:
    type(layer).add_loss(layer, tree.map_structure(_as_floatx, loss))


def _as_floatx(loss: Tensor) -> Tensor:
    return ops.cast(loss, keras.config.floatx())


def move_to_float32(model: keras.Model, moved: list[layers.Layer]) -> None:
    """Switches layers that need float32 in training; later plans keep them there."""
    set_policies(model, dict.fromkeys(moved, "float32"))
    _OVERFLOWED.update(moved)


def overflowed_layers(root: LayerNode) -> frozenset[int]:
    """Ids of the layers that `move_to_float32` was called for, until `revert`."""
    return frozenset(id(node.layer) for node in root.within() if node.layer in _OVERFLOWED)


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
    root = layer_tree.walk(model)
    for layer in (node.layer for node in root.within()):
        if layer in _ORIGINAL:
            _switch(layer, _original_of(layer))
            del _ORIGINAL[layer]
        _OVERFLOWED.discard(layer)
        for name in (_ADD_LOSS, _AGGREGATE):
            vars(layer).pop(name, None)
    undo_steps(model)
    _let_optimizer_follow(model)
    _unwrap_automatic(model)
    drop_traced_functions(root)
    return model


def steps_of(model: keras.Model) -> dict[str, Callable[[keras.Model], None]]:
    """What `revert` does to a model beside its layers, by a key for each step."""
    return vars(model).setdefault(_STEPS, {})


def undo_steps(model: keras.Model) -> None:
    """Runs the steps of `revert` now."""
    for step in vars(model).pop(_STEPS, {}).values():
        step(model)


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
    if isinstance(layer.dtype_policy, keras.dtype_policies.DTypePolicyMap):
        # Keras's setter would write into the map, which the model's other layers share.
        layer._dtype_policy = policy
    else:
        layer.dtype_policy = policy
    if before != layer.variable_dtype:
        for variable in (*layer._trainable_variables, *layer._non_trainable_variables):
            if variable.dtype == before:
                current_backend().give_dtype(variable, layer.variable_dtype)


def _let_optimizer_follow(model: keras.Model) -> None:
    """Gives the optimizer's moments the dtypes of the weights that they belong to."""
    optimizer = getattr(model, "optimizer", None)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    if optimizer is None or not optimizer.built:
        return
    weights = optimizer._trainable_variables
    for name, moments in vars(optimizer).items():
        if name in ("_trainable_variables", "_variables") or not isinstance(moments, list):
            continue
        for weight, moment in zip(weights, moments, strict=False):
            is_float = isinstance(moment, keras.Variable) and "float" in moment.dtype
            if is_float and len(moments) == len(weights) and moment.dtype != weight.dtype:
                current_backend().give_dtype(moment, weight.dtype)
