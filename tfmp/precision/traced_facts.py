"""Facts that have to be known before a model's layers can be decided, by id of the layer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import keras

from tfmp.precision import layer_tree
from tfmp.precision.dry_run import DryRun, DryRunError, dry_run, is_custom, needs_dry_run
from tfmp.precision.layer_tree import LayerNode


@dataclass(frozen=True)
class Evidence:
    """The facts from a model's graphs and dry runs.

    Attributes:
        outputs: layers that compute the values that the loss sees.
        failed: layers that cannot run in the wanted dtype, with the error.
        unsafe_losses: layers whose `add_loss` would get a tensor that is not float32.
        notes: for the user, problems that no layer's dtype can fix.
    """

    outputs: frozenset[int]
    failed: Mapping[int, str] = field(default_factory=dict)
    unsafe_losses: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


def gather(
    root: LayerNode, wanted: Callable[[frozenset[int]], Mapping[int, str | None]]
) -> Evidence:
    """Gathers the facts; traces models with code of their own, computes and changes nothing.

    Args:
        root: the model's tree of layers, from `layer_tree.walk`.
        wanted: for given outputs, the policy that each layer would get, by id of the layer.
    """
    outputs: set[int] = set()
    failed: dict[int, str] = {}
    unsafe: set[int] = set()
    notes: list[str] = []

    def give_up(entry: LayerNode, error: DryRunError) -> None:
        where = layer_tree.describe(entry.path)
        notes.append(f"{where} could not be traced, so its own code stays float32: {error}")
        outputs.update(layer_tree.output_layers(entry))
        failed.update(dict.fromkeys(_own_code(entry), f"{where} could not be traced"))

    as_they_are: dict[LayerNode, DryRun] = {}
    for entry in entry_points(root):
        if not needs_dry_run(entry):
            outputs |= layer_tree.output_layers(entry)
            continue
        try:
            as_they_are[entry] = dry_run(entry)
            outputs |= as_they_are[entry].outputs
        except DryRunError as error:
            give_up(entry, error)

    policies = wanted(frozenset(outputs))
    for entry, before in as_they_are.items():
        try:
            trial = dry_run(entry, policies, before.inputs)
        except DryRunError as error:
            give_up(entry, error)
            continue
        failed.update(trial.failed)
        unsafe |= trial.unsafe_losses
        notes += _losses_of_containers(entry, trial)
    return Evidence(frozenset(outputs), failed, frozenset(unsafe), tuple(notes))


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
