"""Replays a training step on one batch, eagerly and layer by layer, without changing the model.

The forward pass, the loss and the gradients are as in `fit`: training mode, `compute_loss`, and the
dtypes that the layers have. The step's assignments go into a `StatelessScope` and are dropped with
it. One difference may remain: compilers keep some FP16 intermediates in float32.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import keras
from keras import ops, tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.backend.common.stateless_scope import in_stateless_scope

from tfmp.precision import (
    LayerNode,
    has_call,
    layer_tree,
    policy as policies,
)
from tfmp.precision.measuring import Handler, losses_kept, watched_calls
from tfmp.shared.arguments import check_compiled, check_model
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.batches import as_tensor
from tfmp.shared.wording import first_line, joined

# (id of the layer, how many times it was called before): the same in every replay of a batch.
CallKey = tuple[int, int]


@dataclass(frozen=True)
class ReplayedStep:
    """A model and a batch whose training step is replayed.

    Attributes:
        model: compiled and built.
        root: the tree of its layers.
        x, y, sample_weight: the batch, as backend tensors; sample_weight may be None.
    """

    model: keras.Model
    root: LayerNode
    x: TensorTree
    y: TensorTree
    sample_weight: TensorTree


@dataclass(frozen=True)
class Call:
    """One call of a layer, after it returned.

    Attributes:
        node: the layer.
        key: tells the calls of one layer apart, and is the same in every replay.
        args, kwargs: the arguments of the layer, before it cast them to its dtype.
        outputs: the result of the layer.
        inner: number of calls with concrete results that happened inside this one.
    """

    node: LayerNode
    key: CallKey
    args: tuple[TensorTree, ...]
    kwargs: dict[str, TensorTree]
    outputs: TensorTree
    inner: int

    def float_inputs(self) -> list[Tensor]:
        """The floating-point tensors among the arguments."""
        return floats((self.args, self.kwargs))

    def float_outputs(self) -> list[Tensor]:
        """The floating-point tensors in the result."""
        return floats(self.outputs)


class NoLossError(ValueError):
    """A model has no loss to replay."""


# Called for every call, the innermost first; its result takes the place of the outputs.
OnCall = Callable[[Call], TensorTree]


def make_step(
    model: keras.Model, x: TensorTree, y: TensorTree = None, sample_weight: TensorTree = None
) -> ReplayedStep:
    """Checks a model and a batch, and makes tensors of the batch.

    Raises:
        TypeError: `model` is not a Keras model.
        ValueError: the model is not compiled, or not built, or the batch has no samples.
    """
    check_model(model)
    check_compiled(model, needs_optimizer=False)
    policies.check_built(model)

    def tensors(values: TensorTree) -> TensorTree:
        return tree.map_structure(lambda v: None if v is None else as_tensor(v), values)

    with mistakes_of_batch(model):
        if any(0 in getattr(part, "shape", ())[:1] for part in tree.flatten(x)):
            raise ValueError("x has no samples")
        batch = tensors(x), tensors(y), tensors(sample_weight)
    return ReplayedStep(model, layer_tree.walk(model), *batch)


def run(
    step: ReplayedStep, on_call: OnCall | None = None, weights: Sequence[Tensor] | None = None
) -> tuple[TensorTree, Tensor]:
    """The forward pass and the loss.

    Args:
        step: the step to replay.
        on_call: called for every layer call.
        weights: values in place of the model's trainable variables.

    Returns:
        The model's outputs, None of a model without `call`, and the unscaled loss.
    """
    model = step.model
    noted = current_backend().without_gradients() if weights is None else nullcontext()
    if weights is None:
        weights = [variable.value for variable in model.trainable_variables]
    # In a stateless scope regularizers see only the variables that it maps.
    mapping = list(zip(model.trainable_variables, weights, strict=True))
    kwargs = {"training": True} if model._call_has_training_arg else {}
    with (
        noted,
        losses_kept(step.root),
        watched_calls(step.root.within(), _noting(on_call)) if on_call else nullcontext(),
        keras.StatelessScope(state_mapping=mapping, collect_losses=True),
    ):
        outputs = model(step.x, **kwargs) if has_call(model) else None
        loss = compute_loss(step, outputs)
    return outputs, loss


@contextmanager
def mistakes_of_batch(model: keras.Model) -> Iterator[None]:
    """Lets an error of the model's own code say that it cannot train on this batch."""
    try:
        yield
    except NoLossError:
        raise
    except Exception as error:
        names = getattr(model, "output_names", None) or []
        outputs = f" Its outputs are {joined(names)}." if len(names) > 1 else ""
        raise ValueError(
            f"Model {model.name!r} cannot train on this batch: {first_line(error).rstrip('.')}."
            f"{outputs} Pass x and y in the form that model.fit takes."
        ) from error


def compute_loss(step: ReplayedStep, outputs: TensorTree) -> Tensor:
    """The model's total loss for these outputs; terms of `add_loss` are in it only inside `run`.

    Raises:
        NoLossError: the model has none.
    """
    model = step.model
    if not has_call(model):
        return _loss_of_train_step(step)
    has_own = type(model).compute_loss is not keras.Model.compute_loss
    if not (has_own or model._compile_loss is not None or model.losses):
        raise NoLossError(
            f"Model {model.name!r} has no loss: it was compiled without a loss, and no layer adds "
            "one. Pass a loss to model.compile()."
        )
    if step.y is None and model._compile_loss is not None and not has_own:
        raise NoLossError(
            f"Model {model.name!r} was compiled with a loss, which compares with targets; received "
            "x alone. Pass (x, y)."
        )
    loss = model._compute_loss(
        x=step.x, y=step.y, y_pred=outputs, sample_weight=step.sample_weight, training=True
    )
    if loss is None:
        raise NoLossError(
            f"Model {model.name!r} has no loss: its compute_loss returned None. Pass y, or compile "
            "the model with a loss."
        )
    return loss


def _loss_of_train_step(step: ReplayedStep) -> Tensor:
    """The unscaled losses that a model's own `train_step` takes gradients of; nothing is applied.

    Raises:
        NoLossError: none is found.
    """
    model = step.model
    scope = nullcontext() if in_stateless_scope() else keras.StatelessScope()
    batch = keras.utils.pack_x_y_sample_weight(step.x, step.y, step.sample_weight)
    with scope, _idle_optimizers(model):
        losses = current_backend().differentiated(lambda: type(model).train_step(model, batch))
    if not losses:
        raise NoLossError(
            f"Model {model.name!r} has no call, and no loss was seen whose gradients its "
            "train_step takes, so its step cannot be replayed. Give it a call and a loss."
        )
    return sum(ops.mean(ops.cast(loss, "float32")) for loss in losses)


@contextmanager
def _idle_optimizers(model: keras.Model) -> Iterator[None]:
    """Lets the optimizers of a model scale no loss and apply no gradients."""
    idle = {
        "scale_loss": lambda loss: loss,
        "apply": lambda *args, **kwargs: None,
        "apply_gradients": lambda *args, **kwargs: None,
    }
    held = [one for one in vars(model).values() if isinstance(one, keras.optimizers.Optimizer)]
    for optimizer in held:
        vars(optimizer).update(idle)
    try:
        yield
    finally:
        for optimizer in held:
            for name in idle:
                del vars(optimizer)[name]


@dataclass(frozen=True)
class Gradients:
    """Gradients of the scaled loss.

    Attributes:
        weights: for each trainable variable of the model, its gradient.
        outputs: for each probed call and each floating-point output, its gradient.
    """

    weights: list[Tensor]
    outputs: dict[CallKey, list[Tensor]]


def gradients(
    step: ReplayedStep, probed: Mapping[CallKey, Sequence[Tensor]], scale: float
) -> Gradients:
    """Gradients of `scale * loss` for all trainable weights and for the results of probed calls.

    Args:
        step: the step to replay.
        probed: the floating-point outputs of the calls to probe, from an earlier `run`.
        scale: the loss scale.
    """
    weights = [ops.stop_gradient(variable) for variable in step.model.trainable_variables]
    keys = list(probed)
    # A zero that is added to an output has the same gradient: this works on every backend.
    probes = [[ops.zeros_like(tensor) for tensor in probed[key]] for key in keys]

    def objective(weights: list[Tensor], probes: list[list[Tensor]]) -> Tensor:
        by_key = dict(zip(keys, probes, strict=True))

        def add_probe(call: Call) -> TensorTree:
            return _plus(call.outputs, by_key[call.key]) if call.key in by_key else call.outputs

        _, loss = run(step, add_probe, weights)
        return ops.multiply(ops.cast(loss, "float32"), scale)

    _, found = current_backend().gradients(objective, (weights, probes))
    for_weights, for_probes = found
    return Gradients(for_weights, dict(zip(keys, for_probes, strict=True)))


def _plus(outputs: TensorTree, probes: list[Tensor]) -> TensorTree:
    remaining = iter(probes)

    def add(tensor: Tensor) -> Tensor:
        if not is_float(tensor):
            return tensor
        added = ops.add(tensor, next(remaining))
        mask = get_keras_mask(tensor)
        if mask is not None:
            set_keras_mask(added, mask)
        return added

    return tree.map_structure(add, outputs)


def owners(root: LayerNode) -> dict[int, LayerNode]:
    """The layer that made each variable, by id of the variable."""
    return {
        id(variable): node
        for node in root.within()
        for variable in (*node.layer._trainable_variables, *node.layer._non_trainable_variables)
    }


def floats(structure_of_tensors: TensorTree) -> list[Tensor]:
    """The floating-point tensors in a nested structure."""
    return [leaf for leaf in tree.flatten(structure_of_tensors) if is_float(leaf)]


def is_float(value: object) -> bool:
    """Whether a value is a floating-point tensor."""
    return ops.is_tensor(value) and keras.backend.is_float_dtype(getattr(value, "dtype", None))


def _noting(on_call: OnCall) -> Handler:
    counts: Counter[int] = Counter()
    total = 0

    def note(
        node: LayerNode, call: Callable[[], TensorTree], args: tuple, kwargs: dict
    ) -> TensorTree:
        nonlocal total
        key = (id(node.layer), counts[id(node.layer)])
        counts[id(node.layer)] += 1
        before = total
        outputs = call()
        inner = total - before
        total += all(map(current_backend().is_concrete, floats(outputs)))
        return on_call(Call(node, key, args, kwargs, outputs, inner))

    return note
