"""Replays a training step on one batch, eagerly and layer by layer, and leaves the model as it was.

The forward pass, the loss and the gradients are those of `fit`: training mode, `compute_loss`, and
the dtypes that the layers have. What the step would assign goes into a `StatelessScope` and is
dropped with it. One thing may differ: compilers keep some FP16 intermediates in float32.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops, tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

from tfmp.precision import LayerNode, layer_tree, losses_kept, policy_named
from tfmp.shared.arguments import check_compiled, check_model
from tfmp.shared.backend import TensorTree
from tfmp.shared.batches import as_tensor

# Replays patch Keras's `Layer.__call__` while they run.
_PATCHING = threading.RLock()

# (id of the layer, how many times it was called before): the same in every replay of a batch.
CallKey = tuple[int, int]


@dataclass(frozen=True)
class ReplayedStep:
    """What is replayed.

    Attributes:
        model: compiled and built.
        root: its layers.
        x, y, sample_weight: the batch, as backend tensors; sample_weight may be None.
    """

    model: keras.Model
    root: LayerNode
    x: Any
    y: Any
    sample_weight: Any


@dataclass(frozen=True)
class Call:
    """One call of a layer, after it returned.

    Attributes:
        node: the layer.
        key: tells the calls of one layer apart, and is the same in every replay.
        args, kwargs: as the layer was given them, before it cast them to its dtype.
        outputs: what it returned.
        inner: how many calls with concrete results happened inside this one.
    """

    node: LayerNode
    key: CallKey
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any
    inner: int

    def float_inputs(self) -> list[Any]:
        """The floating-point tensors among the arguments."""
        return floats((self.args, self.kwargs))

    def float_outputs(self) -> list[Any]:
        """The floating-point tensors that it returned."""
        return floats(self.outputs)


# Is told of every call, innermost first; what it returns takes the outputs' place.
OnCall = Callable[[Call], Any]


def make_step(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> ReplayedStep:
    """Checks a model and a batch, and makes tensors of the batch.

    Raises:
        TypeError: `model` is no Keras model.
        ValueError: it is not built, or not compiled with a loss.
    """
    check_model(model)
    check_compiled(model, needs_optimizer=False)
    if not model.built:
        raise ValueError(
            f"A built model is expected, received {model.name!r} without weights. Call it on a "
            "batch or model.build(input_shape) first."
        )

    def tensors(values: TensorTree) -> TensorTree:
        return tree.map_structure(lambda v: None if v is None else as_tensor(v), values)

    return ReplayedStep(
        model, layer_tree.walk(model), tensors(x), tensors(y), tensors(sample_weight)
    )


def run(
    step: ReplayedStep, on_call: OnCall | None = None, weights: Sequence[Any] | None = None
) -> tuple[Any, Any]:
    """The forward pass and the loss.

    Args:
        step: what to replay.
        on_call: is told of every layer call.
        weights: in place of the model's trainable variables.

    Returns:
        The model's outputs and the unscaled loss.
    """
    model = step.model
    if weights is None:
        weights = [variable.value for variable in model.trainable_variables]
    # Regularizers see nothing in a stateless scope but what it maps.
    mapping = list(zip(model.trainable_variables, weights, strict=True))
    kwargs = {"training": True} if model._call_has_training_arg else {}
    with (
        _PATCHING,
        losses_kept(step.root),
        _watched_calls(step.root, on_call),
        keras.StatelessScope(state_mapping=mapping, collect_losses=True),
    ):
        outputs = model(step.x, **kwargs)
        loss = compute_loss(step, outputs)
    return outputs, loss


def compute_loss(step: ReplayedStep, outputs: Any) -> Any:
    """The model's total loss for these outputs; with `add_loss` terms only inside `run`."""
    model = step.model
    has_own = type(model).compute_loss is not keras.Model.compute_loss
    if not (has_own or model._compile_loss is not None or model.losses):
        raise ValueError(
            f"A model with a loss is expected; {model.name!r} was compiled without one and its "
            "layers add none. Pass a loss to model.compile()."
        )
    loss = model._compute_loss(
        x=step.x, y=step.y, y_pred=outputs, sample_weight=step.sample_weight, training=True
    )
    if loss is None:
        raise ValueError(
            f"A model with a loss is expected: compute_loss of {model.name!r} returned None. "
            "Pass y, or compile the model with a loss."
        )
    return loss


@dataclass(frozen=True)
class Gradients:
    """Gradients of the scaled loss.

    Attributes:
        weights: one per trainable variable of the model, None where there is none.
        outputs: per probed call, one per floating-point output, None where there is none.
    """

    weights: list[Any]
    outputs: dict[CallKey, list[Any]]


def gradients(
    step: ReplayedStep, probed: Mapping[CallKey, Sequence[Any]], scale: float
) -> Gradients:
    """Gradients of `scale * loss` for all trainable weights and for what probed calls return.

    Args:
        step: what to replay.
        probed: the floating-point outputs of the calls to probe, as an earlier `run` saw them.
        scale: the loss scale.
    """
    weights = [ops.stop_gradient(variable) for variable in step.model.trainable_variables]
    keys = list(probed)
    # Adding zero to an output makes its gradient that of the zero: this works on every backend.
    probes = [[ops.zeros_like(tensor) for tensor in probed[key]] for key in keys]

    def objective(weights: list[Any], probes: list[list[Any]]) -> Any:
        by_key = dict(zip(keys, probes, strict=True))

        def add_probe(call: Call) -> Any:
            return _plus(call.outputs, by_key[call.key]) if call.key in by_key else call.outputs

        _, loss = run(step, add_probe, weights)
        return ops.multiply(ops.cast(loss, "float32"), scale)

    for_weights, for_probes = _differentiate(objective, weights, probes)
    return Gradients(for_weights, dict(zip(keys, for_probes, strict=True)))


def _plus(outputs: Any, probes: list[Any]) -> Any:
    remaining = iter(probes)

    def add(tensor: Any) -> Any:
        if not is_float(tensor):
            return tensor
        added = ops.add(tensor, next(remaining))
        mask = get_keras_mask(tensor)
        if mask is not None:
            set_keras_mask(added, mask)
        return added

    return tree.map_structure(add, outputs)


def _differentiate(
    objective: Callable[[list[Any], list[list[Any]]], Any],
    weights: list[Any],
    probes: list[list[Any]],
) -> tuple[list[Any], list[list[Any]]]:
    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(objective, argnums=(0, 1))(weights, probes)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        for tensor in tree.flatten((weights, probes)):
            tape.watch(tensor)
        loss = objective(weights, probes)
    return tape.gradient(loss, (weights, probes))


def owners(root: LayerNode) -> dict[int, LayerNode]:
    """The layer that made each variable, by id of the variable."""
    return {
        id(variable): node
        for node in root.within()
        for variable in (*node.layer._trainable_variables, *node.layer._non_trainable_variables)
    }


def floats(structure_of_tensors: Any) -> list[Any]:
    """The floating-point tensors in a nested structure."""
    return [leaf for leaf in tree.flatten(structure_of_tensors) if is_float(leaf)]


def is_float(value: Any) -> bool:
    """Whether a value is a floating-point tensor."""
    return ops.is_tensor(value) and keras.backend.is_float_dtype(value.dtype)


def is_concrete(tensor: Any) -> bool:
    """Whether a tensor has values, as opposed to one inside a function that is being traced."""
    if keras.backend.backend() == "jax":
        import jax

        return not isinstance(tensor, jax.core.Tracer)
    return hasattr(tensor, "numpy")


@contextmanager
def in_float32(nodes: Sequence[LayerNode]) -> Iterator[None]:
    """Lets layers that compute in FP16 or BF16 compute in float32."""
    # The attribute behind the property: Keras's setter would write into a shared DTypePolicyMap.
    before = [(node.layer, node.layer._dtype_policy) for node in nodes]
    try:
        for layer, _ in before:
            if layer.compute_dtype in ("float16", "bfloat16"):
                layer._dtype_policy = policy_named("float32")
        yield
    finally:
        for layer, policy in before:
            layer._dtype_policy = policy


@contextmanager
def _watched_calls(root: LayerNode, on_call: OnCall | None) -> Iterator[None]:
    if on_call is None:
        yield
        return
    # On the class, not on `call` of each instance: what matters is what a layer is given before
    # it casts that to its own dtype.
    original = keras.layers.Layer.__call__
    nodes = {id(node.layer): node for node in root.within()}
    counts: Counter[int] = Counter()
    total = 0

    def watched(layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> Any:
        nonlocal total
        node = nodes.get(id(layer))
        if node is None:
            return original(layer, *args, **kwargs)
        key = (id(layer), counts[id(layer)])
        counts[id(layer)] += 1
        before = total
        outputs = original(layer, *args, **kwargs)
        inner = total - before
        total += all(map(is_concrete, floats(outputs)))
        return on_call(Call(node, key, args, kwargs, outputs, inner))

    keras.layers.Layer.__call__ = watched
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = original
