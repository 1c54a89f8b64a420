"""The forward half of `locate_nonfinite`: data, weights, layer outputs and loss."""

from collections.abc import Iterator
from dataclasses import replace

from keras import ops, tree

from tfmp.nonfinite import replay
from tfmp.nonfinite.finding import NonFinite, keep_advice, path_of, where
from tfmp.nonfinite.replay import Call, ReplayedStep
from tfmp.nonfinite.value_range import is_float, range_of
from tfmp.precision import NARROW_DTYPES, LayerNode
from tfmp.precision.measuring import FirstOp, first_nonfinite_op, in_float32
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.numerics import FLOAT16


class FoundInForward(BaseException):
    """Ends a forward pass at its first non-finite output.

    It is not an `Exception`, because Keras catches those in every layer to replace them.
    """

    def __init__(self, finding: NonFinite) -> None:
        super().__init__(str(finding))
        self.finding = finding


def search_data(x: TensorTree, y: TensorTree, sample_weight: TensorTree) -> NonFinite | None:
    """The first non-finite number in a batch."""
    for part, values in (("x", x), ("y", y), ("sample_weight", sample_weight)):
        for name, tensor in _named_leaves(part, values):
            seen = range_of(tensor)
            if not seen.finite:
                return NonFinite(
                    stage="data",
                    cause="data",
                    what=f"The data itself is not finite: {name} has {seen.describe_bad()}",
                    why=f"the first is in row {seen.first_bad_row}",
                    advice="Drop or repair such rows before training; no precision helps.",
                    ranges=((name, seen),),
                )
    return None


def _named_leaves(name: str, value: TensorTree) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _named_leaves(f"{name}[{key!r}]", inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _named_leaves(f"{name}[{index}]", inner)
    elif is_float(value):
        yield name, value


# What is wrong where variables are not finite before a step, and what to do about it.
_OF_WEIGHTS = (
    "an earlier step broke it, so that all values after it are not finite either",
    "Go back to a checkpoint from before. tfmp.LossScaleOptimizer applies no step with "
    "non-finite gradients, so look for other code that assigns it.",
)
_OF_STATES = (
    "no optimizer changes it: its layer assigned it in an earlier step, from values that were "
    "not finite",
    "Go back to a checkpoint from before, or assign finite values to it.",
)


def search_variables(step: ReplayedStep, kind: str, path: str | None = None) -> NonFinite | None:
    """The first variable of the model that is not finite before the step.

    States may be the effect of a step that was not finite: batch statistics, for example, do not
    use moving ones.

    Args:
        step: the step to replay.
        kind: "weight", or "state" for what layers keep for themselves.
        path: of the layer whose variables are searched; None for all layers.
    """
    owners = replay.owners(step.root)
    states = {id(one) for node in step.root.within() for one in node.layer._non_trainable_variables}
    why, advice = _OF_STATES if kind == "state" else _OF_WEIGHTS
    for variable in step.model.variables:
        owner = path_of(owners.get(id(variable)))
        if (id(variable) in states) is not (kind == "state") or path not in (None, owner):
            continue
        if not replay.is_float(variable.value) or (values := range_of(variable.value)).finite:
            continue
        return NonFinite(
            stage="weights",
            cause="weights",
            what=f"The {kind} {variable.path} has {values.describe_bad()} before the step",
            why=why,
            advice=advice,
            layer=owner,
            ranges=((variable.path, values),),
        )
    return None


class ForwardWatch:
    """Sees every call of a forward pass, and ends the pass at the first non-finite output."""

    def __init__(self) -> None:
        self._explaining = False
        self.calls: list[Call] = []

    def see(self, call: Call) -> TensorTree:
        """Notes a call whose outputs are finite; raises `FoundInForward` on another one."""
        outputs = call.float_outputs()
        if self._explaining or not all(map(current_backend().is_concrete, outputs)):
            return call.outputs
        self.calls.append(call)
        if not all(range_of(tensor).finite for tensor in outputs):
            self._explaining = True
            raise FoundInForward(_explain_forward(call))
        return call.outputs


def _explain_forward(call: Call) -> NonFinite:
    entered = tuple(
        (f"input {index}", range_of(tensor)) for index, tensor in enumerate(call.float_inputs())
    )
    bad = next(v for v in map(range_of, call.float_outputs()) if not v.finite)
    finding = NonFinite(
        stage="forward",
        cause="overflow",
        what=f"The output of {where(call.node)} has {bad.describe_bad()}",
        why="",
        advice="",
        layer=path_of(call.node),
        ranges=entered,
    )
    if not all(values.finite for _, values in entered):
        owner = call.node.owner or call.node
        return replace(
            finding,
            cause="invalid",
            what=f"The input of {where(call.node)} is not finite, although the outputs of all "
            "layers before it are",
            why=f"an operation of {where(owner)} itself, between its layers, causes it",
            advice="Look at the operations between the layers there.",
            layer=path_of(owner),
        )
    largest = max((values.magnitude for _, values in entered), default=0.0)
    is_half = call.node.layer.compute_dtype == "float16"
    if is_half and largest >= FLOAT16.overflow_threshold:
        return replace(
            finding,
            why=f"its input reaches {largest:.4g}, and overflows when it is cast to float16, "
            "which ends at 65504",
            advice="Scale the input down, for example with keras.layers.Rescaling. "
            + keep_advice(call.node),
        )
    return _explain_arithmetic(call, finding)


def _explain_arithmetic(call: Call, finding: NonFinite) -> NonFinite:
    """Explains a layer with finite inputs: too narrow a dtype, or invalid arithmetic."""
    op = _first_op_of(call)
    finding = replace(finding, op=op)
    narrow = call.node.layer.compute_dtype
    if narrow in NARROW_DTYPES:
        with in_float32(call.node.within()):
            wide = [range_of(t) for t in replay.floats(call.node.layer(*call.args, **call.kwargs))]
        if all(values.finite for values in wide):
            reached = max((values.magnitude for values in wide), default=0.0)
            if narrow == "float16" and reached >= FLOAT16.overflow_threshold:
                why = f"in float32 it reaches {reached:.4g}, and float16 ends at 65504"
            else:
                why = f"an intermediate value overflows {narrow}; in float32 all is finite"
            return replace(finding, why=why, advice=keep_advice(call.node))
        with in_float32(call.node.within()):
            op = _first_op_of(call)
    if _is_narrow(op):
        return _explain_own_cast(finding)
    return replace(
        finding,
        cause="invalid",
        why="it is not finite in float32 either, so no precision helps: "
        "a division by zero, for example, or the root of a negative number",
        advice="Keep the operation in its domain: clip its input, or add an epsilon that the "
        "dtype can hold (1e-3 rather than 1e-8 in float16).",
    )


def _first_op_of(call: Call) -> FirstOp | None:
    tensors = call.float_inputs()

    def again(*replacements: Tensor) -> TensorTree:
        given = iter(replacements)
        args, kwargs = tree.map_structure(
            lambda leaf: next(given) if replay.is_float(leaf) else leaf, (call.args, call.kwargs)
        )
        return call.node.layer(*args, **kwargs)

    return first_nonfinite_op(again, *tensors)


def search_loss(step: ReplayedStep, outputs: TensorTree) -> NonFinite:
    """Explains a loss that is not finite although the outputs of all layers are."""
    added = _bad_added_loss(step)
    if added is not None:
        return NonFinite(
            stage="loss",
            cause="invalid",
            what=f"The loss that {where(added)} adds with add_loss is not finite",
            why="the outputs of all layers are finite, so the operations of that loss cause it",
            advice="Compute it on float32 tensors, and keep its operations in their domain.",
            layer=path_of(added),
        )
    finding = NonFinite(
        stage="loss",
        cause="invalid",
        what="The loss is not finite, although the model's outputs are",
        why="in float32 it is not finite either, like the logarithm of a probability of 0",
        advice="Let the last layer return logits and the loss use from_logits=True, or clip the "
        "argument of a logarithm or division.",
        op=first_nonfinite_op(lambda *_: replay.compute_loss(step, outputs)),
        ranges=tuple(
            (name, range_of(tensor))
            for part, values in (("y_pred", outputs), ("y", step.y))
            for name, tensor in _named_leaves(part, values)
        ),
    )
    wide = tree.map_structure(
        lambda leaf: ops.cast(leaf, "float32") if replay.is_float(leaf) else leaf, outputs
    )
    if not range_of(replay.compute_loss(step, wide)).finite:
        wide_op = first_nonfinite_op(lambda *_: replay.compute_loss(step, wide))
        return _explain_own_cast(finding) if _is_narrow(wide_op) else finding
    return replace(
        finding,
        cause="overflow",
        why="on float32 outputs it is finite, so it overflows in the outputs' own dtype",
        advice="Keep the output layers in float32, as tfmp.plan does.",
    )


def _is_narrow(op: FirstOp | None) -> bool:
    return op is not None and op.dtype in NARROW_DTYPES


def _explain_own_cast(finding: NonFinite) -> NonFinite:
    """Explains an operation that is in 16 bits although all that it was given is in float32."""
    return replace(
        finding,
        cause="invalid",
        why="code of its own casts to 16 bits, whatever the layers' dtypes are",
        advice="Cast to float32 there, keras.ops.cast(x, 'float32'), before that operation.",
    )


def _bad_added_loss(step: ReplayedStep) -> LayerNode | None:
    bad: list[LayerNode] = []

    def see(call: Call) -> TensorTree:
        losses = call.node.layer._get_own_losses()
        if not all(range_of(loss).finite for loss in losses if current_backend().is_concrete(loss)):
            bad.append(call.node)
        return call.outputs

    replay.run(step, see)
    return bad[0] if bad else None
