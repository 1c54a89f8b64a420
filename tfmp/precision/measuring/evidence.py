"""Gathers the facts that have to be known before a model's layers can be decided."""

import keras

from tfmp.precision import layer_tree, policy_named
from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.measuring.facts import FAILED_DRY_RUN, Evidence, Wanted
from tfmp.precision.measuring.needs import Needs
from tfmp.precision.measuring.recording import NotRunError, Recording
from tfmp.precision.measuring.watched_calls import has_own_code, is_custom
from tfmp.shared.backend import TensorTree


def gather(root: LayerNode, wanted: Wanted, base: str, data: TensorTree = None) -> Evidence:
    """Gathers the facts; runs the code of models that is not Keras's own, and changes nothing.

    Args:
        root: the model's tree of layers, from `layer_tree.walk`.
        wanted: for given evidence, the policy that each layer would get, by id of the layer.
        base: name of the policy that most layers would get.
        data: inputs of the model; None to make them up.
    """
    found = Evidence()
    measured: list[Recording] = []
    pending = entry_points(root)
    data = data if pending == [root] else None
    while pending:
        node = pending.pop(0)
        if not any(map(has_own_code, node.within())):
            found.outputs |= layer_tree.output_layers(node)
            continue
        try:
            model = Recording(node, data if node is root else None)
        except NotRunError as error:
            parts = _not_called(node, frozenset()) if node is root else []
            _give_up(node, error, parts, found)
            pending += parts
            continue
        measured.append(model)
        pending += _not_called(node, frozenset(model.calls))
        found.outputs |= model.outputs()
        if base.startswith("mixed_"):
            dtype = policy_named(base).compute_dtype
            for key, name in model.states().items():
                reason = f"updates its own {name!r}: {dtype} rounds small changes off"
                found.measured.setdefault(key, reason)
    for model in measured:
        Needs(model, found, wanted, base).add_all()
    return found


def entry_points(root: LayerNode) -> list[LayerNode]:
    """The models that a training step calls: the model, or its parts if it has no `call`.

    Models with a `train_step` of their own, such as autoencoders and GANs, often have no `call`.
    The outputs of every part then count as values that a loss may see.
    """
    if layer_tree.has_call(root.layer):
        return [root]
    return [entry for child in root.children for entry in entry_points(child)]


def _give_up(entry: LayerNode, error: NotRunError, parts: list[LayerNode], found: Evidence) -> None:
    """Leaves the code of a model in float32 that could not be run."""
    where = layer_tree.describe(entry.path)
    found.notes.append(f"{where} could not be run, so its own code stays float32: {error}")
    alone = {id(node.layer) for part in parts for node in part.within()}
    own = {
        id(part.layer)
        for node in entry.within()
        if is_custom(node.layer) and not layer_tree.is_graph(node.layer)
        for part in node.within()
    }
    found.outputs |= layer_tree.output_layers(entry) - alone
    reason = f"{FAILED_DRY_RUN} in 16 bits: {where} could not be run"
    found.measured.update(dict.fromkeys(own - alone, reason))


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
