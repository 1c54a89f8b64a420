"""Facts that have to be known before a model's layers can be decided, by id of the layer."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import keras

from tfmp.precision import layer_tree, policy_named, steep_places
from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.tracing.dry_run import (
    DryRun,
    DryRunError,
    all_in_float32,
    dry_run,
    is_custom,
    needs_dry_run,
)
from tfmp.precision.tracing.graph_operations import (
    around_logarithms,
    feeding_layers,
    feeding_own_code,
    has_operations,
    own_exponentials,
    readers_of_exponentials,
    readers_of_powers,
    with_sums_behind,
)
from tfmp.precision.tracing.hazards import hazards, promoted


@dataclass(frozen=True)
class Evidence:
    """The facts from a model's graphs and dry runs.

    Attributes:
        outputs: layers that compute the values that the loss sees.
        failed: layers that cannot run in the wanted dtype, with the error.
        unsafe_losses: layers whose `add_loss` would get a tensor that is not float32.
        notes: for the user, problems that no layer's dtype can fix.
        promoted: layers whose own code multiplies in float32 under a 16-bit policy, with the line.
        out_of_range: layers whose own code leaves FP16's range, with the operation.
        lookups_in_16_bits: layers that get the base policy even if they look up: float32 results
            would keep the layers behind them out of 16 bits.
        states: layers that compute a weight's new value from its old one in 16 bits, with its name.
    """

    outputs: frozenset[int]
    failed: Mapping[int, str] = field(default_factory=dict)
    unsafe_losses: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    out_of_range: Mapping[int, str] = field(default_factory=dict)
    promoted: Mapping[int, str] = field(default_factory=dict)
    lookups_in_16_bits: frozenset[int] = frozenset()
    states: Mapping[int, str] = field(default_factory=dict)


Wanted = Callable[[frozenset[int], frozenset[int], Mapping[int, str]], Mapping[int, str | None]]


def gather(root: LayerNode, wanted: Wanted, base: str) -> Evidence:
    """Gathers the facts; traces models with code of their own, and changes nothing.

    Args:
        root: the model's tree of layers, from `layer_tree.walk`.
        wanted: for given outputs, `lookups_in_16_bits` and `states`, the policy that each layer
            would get, by id of the layer.
        base: name of the policy that most layers would get.
    """
    outputs: set[int] = set()
    failed: dict[int, str] = {}
    unsafe: set[int] = set()
    notes: list[str] = []
    out_of_range: dict[int, str] = {}
    lines: dict[int, str] = {}

    def give_up(entry: LayerNode, error: DryRunError, parts: Iterable[LayerNode] = ()) -> None:
        where = layer_tree.describe(entry.path)
        notes.append(
            f"{where} could not be traced, so its own code stays float32: {str(error).rstrip('.')}"
        )
        alone = {id(node.layer) for part in parts for node in part.within()}
        outputs.update(layer_tree.output_layers(entry) - alone)
        own = _own_code(entry) - alone
        failed.update(dict.fromkeys(own, f"{where} could not be traced"))

    as_they_are: dict[LayerNode, DryRun] = {}
    entries = entry_points(root)
    for entry in entries:
        if not needs_dry_run(entry):
            outputs |= layer_tree.output_layers(entry)
            if has_operations(entry) or any(map(layer_tree.divides_by_norm, _layers(entry))):
                with suppress(DryRunError):
                    as_they_are[entry] = dry_run(entry)
            continue
        try:
            as_they_are[entry] = dry_run(entry)
            outputs |= as_they_are[entry].outputs
            entries += _not_called(entry, as_they_are[entry].called)
        except DryRunError as error:
            # A `train_step` may call the models in it on other inputs.
            parts = _not_called(entry, frozenset())
            give_up(entry, error, parts)
            entries += parts

    lookups: frozenset[int] = frozenset()
    states: dict[int, str] = {}
    policies = wanted(frozenset(outputs), lookups, states)
    for entry, before in as_they_are.items():
        try:
            trial = dry_run(entry, policies, before)
        except DryRunError as error:
            if needs_dry_run(entry):
                give_up(entry, error)
            continue
        if trial.failed:
            more = lookups | {id(node.layer) for node in entry.within()}
            other = wanted(frozenset(outputs), more, states)
            again = _run(entry, other, before) if other != policies else None
            if again and len(again.failed) < len(trial.failed):
                lookups, policies, trial = more, other, again
        if trial.states:
            states.update(trial.states)
            policies = wanted(frozenset(outputs), lookups, states)
            trial = _run(entry, policies, before) or trial
            notes += _states_in_16_bits(entry, trial)
        failed.update(trial.failed)
        unsafe |= trial.unsafe_losses
        notes += _losses_of_containers(entry, trial)
        lines.update(promoted(trial.facts))
        if base == "mixed_float16":  # bfloat16 has the range of float32
            notes += _leave_range(entry, before, trial, out_of_range)
            out_of_range.update(
                _large_gradients(entry, policies, {**failed, **out_of_range}, before)
            )
        if needs_dry_run(entry):
            _settle(entry, policies, before, out_of_range, failed)
    return Evidence(
        frozenset(outputs),
        failed,
        frozenset(unsafe),
        tuple(notes),
        out_of_range,
        lines,
        lookups,
        states,
    )


def _run(entry: LayerNode, policies: Mapping[int, str | None], before: DryRun) -> DryRun | None:
    """Another dry run on the same inputs; None if it cannot be traced."""
    with suppress(DryRunError):
        return dry_run(entry, policies, before)
    return None


def _large_gradients(
    entry: LayerNode,
    policies: Mapping[int, str | None],
    wide: Mapping[int, str],
    before: DryRun,
) -> dict[int, str]:
    """The layers whose results get too large gradients from code in float32, with the reason.

    Only models are run that have code which leaves the range: where all fits, gradients do.
    """
    nodes = {id(node.layer): node for node in entry.within()}
    if not (nodes.keys() & wide.keys() or any(map(layer_tree.divides_by_norm, _layers(entry)))):
        return {}
    narrow = (
        frozenset(key for key in nodes if _computes_in_float16(policies.get(key))) - wide.keys()
    )
    steep: dict[int, float] = {}
    # Code of the user's own may need sizes, or devices, that this run does not know.
    with suppress(Exception), all_in_float32(entry):
        steep = steep_places(entry, narrow, before.inputs.of_zeros())
    return {
        id(part.layer): f"gets gradients up to {size:.1g} from code in float32, infinite in float16"
        for key, size in steep.items()
        for part in nodes[key].unit()
    }


def _computes_in_float16(policy: str | None) -> bool:
    return policy is not None and policy_named(policy).compute_dtype == "float16"


def _layers(entry: LayerNode) -> Iterable[keras.layers.Layer]:
    return (node.layer for node in entry.within())


def _settle(
    entry: LayerNode,
    policies: Mapping[int, str | None],
    before: DryRun,
    out_of_range: Mapping[int, str],
    failed: dict[int, str],
) -> None:
    """Adds the layers that fail beside layers in float32, until a run has no other failures.

    Operators of TensorFlow take no float32 and 16 bits together: `x + self.att(self.norm(x))` fails
    where the attention stays in float32, and so may code that reads its sum.
    """
    own = {id(node.layer) for node in entry.within()}
    tried: set[int] = set()
    while (wide := own & (out_of_range.keys() | failed.keys())) > tried:
        tried = wide
        trial = _run(entry, {**policies, **dict.fromkeys(wide, "float32")}, before)
        failed.update(trial.failed if trial else {})


def _leave_range(
    entry: LayerNode, before: DryRun, trial: DryRun, out_of_range: dict[int, str]
) -> list[str]:
    """Adds the layers that leave FP16's range, and those around them; gives notes on own code.

    Args:
        entry: what is called in a training step.
        before: the dry run of the model as it is.
        trial: that in the wanted policies.
        out_of_range: by id of the layer, the operation that leaves the range.
    """
    found = hazards(before.facts, with_sums_behind(entry, trial.facts))
    own = own_exponentials(entry, trial.facts)
    for node in entry.within():
        if id(node.layer) in found and node is not entry:
            # It computes with the results of its layers: they are switched with it.
            reason = found[id(node.layer)]
            out_of_range.update((id(part.layer), reason) for part in node.within())
    out_of_range.update(feeding_layers(entry, found))
    followers = (
        readers_of_powers(entry, trial.facts, found),
        readers_of_exponentials(entry, trial.facts),
        around_logarithms(entry, trial.facts),
        feeding_own_code(entry, own, found),
    )
    for kept in followers:
        out_of_range.update({**kept, **out_of_range})
    if id(entry.layer) in trial.unsafe_losses:
        return []
    others = [fact for fact in trial.facts if fact not in own]
    return _own_code_of_model(entry, hazards(before.facts, others) if own else found)


def entry_points(root: LayerNode) -> list[LayerNode]:
    """The models that a training step calls: the model, or its parts if it has no `call`.

    Models with a `train_step` of their own, such as autoencoders and GANs, often have no `call`.
    The outputs of every part then count as values that a loss may see.
    """
    if type(root.layer).call is not keras.Model.call:
        return [root]
    return [entry for child in root.children for entry in entry_points(child)]


def _own_code(entry: LayerNode) -> set[int]:
    """Layers whose class Keras does not define, and the layers that they contain."""
    return {
        id(part.layer)
        for node in entry.within()
        if is_custom(node.layer) and not layer_tree.is_graph(node.layer)
        for part in node.within()
    }


def _losses_of_containers(entry: LayerNode, trial: DryRun) -> list[str]:
    """A container's own `add_loss` gets its layers' results: its own dtype does not help."""
    return [
        f"{layer_tree.describe(node.path)} adds a loss computed in 16 bits: cast it, "
        "self.add_loss(keras.ops.cast(x, 'float32')), before it is summed"
        for node in entry.within()
        if id(node.layer) in trial.unsafe_losses and node.children
    ]


def _states_in_16_bits(entry: LayerNode, trial: DryRun) -> list[str]:
    """States of layers that no rule may move: their user or a pure policy has chosen 16 bits."""
    return [
        f"{layer_tree.describe(node.path)} updates its own {trial.states[id(node.layer)]!r} in 16 "
        "bits, which round small changes off: keep this layer in float32"
        for node in entry.within()
        if id(node.layer) in trial.states
    ]


def _own_code_of_model(entry: LayerNode, found: Mapping[int, str]) -> list[str]:
    """A whole model's own code gets its layers' results: float32 for all of them would be much."""
    reason = found.get(id(entry.layer))
    if reason is None or layer_tree.is_graph(entry.layer):
        return []
    where = layer_tree.describe(entry.path)
    return [f"{where} {reason}: cast in call, keras.ops.cast(x, 'float32'), before that operation"]


def _not_called(entry: LayerNode, called: frozenset[int]) -> list[LayerNode]:
    """Models in a model that its `call` leaves to a `train_step`, such as a teacher."""
    found: list[LayerNode] = []
    pending = list(entry.children)
    while pending:
        node = pending.pop()
        if isinstance(node.layer, keras.Model) and id(node.layer) not in called:
            found.append(node)
        else:
            pending += node.children
    return [part for node in found if node.layer.built for part in entry_points(node)]
