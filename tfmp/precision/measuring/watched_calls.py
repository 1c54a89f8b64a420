"""Takes the place of the calls of a model's layers, and leaves nothing behind."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import keras
from keras import layers

from tfmp.precision.layer_tree import (
    LayerNode,
    divides_by_norm,
    is_builtin,
    is_graph,
    operations_of,
)
from tfmp.shared.backend import TensorTree

# Keras's `Layer.__call__` is patched while a model is watched.
_PATCHING = threading.RLock()

# Activations of Keras that have no 16-bit kernel on TensorFlow, or are infinite in FP16 from 11 on.
_WIDE_ACTIVATIONS = (keras.activations.exponential, keras.activations.sparsemax)

# Layers of Keras that call a user's function, an exported model, or code of other frameworks.
_OF_FOREIGN_CODE = (layers.Lambda, layers.TFSMLayer, layers.JaxLayer, layers.TorchModuleWrapper)

# Gets a layer, a function that calls it, and the arguments before the layer casts them.
Handler = Callable[
    [LayerNode, Callable[[], TensorTree], tuple[TensorTree, ...], dict[str, TensorTree]], TensorTree
]


@contextmanager
def watched_calls(root: LayerNode, handler: Handler) -> Iterator[None]:
    """Lets a handler answer every call of a layer in the tree.

    The class is patched, not `call` of each instance: the arguments matter as they are before a
    layer casts them to its own dtype.
    """
    nodes = {id(node.layer): node for node in root.within()}
    with _PATCHING:
        original = layers.Layer.__call__

        def watched(layer: layers.Layer, *args: TensorTree, **kwargs: TensorTree) -> TensorTree:
            node = nodes.get(id(layer))
            if node is None:
                return original(layer, *args, **kwargs)
            return handler(node, lambda: original(layer, *args, **kwargs), args, kwargs)

        layers.Layer.__call__ = watched
        try:
            yield
        finally:
            layers.Layer.__call__ = original


def is_custom(layer: layers.Layer) -> bool:
    """Whether a layer runs code that is not Keras's own, or that FP16 may not hold."""
    if not is_builtin(layer) or isinstance(layer, _OF_FOREIGN_CODE):
        return True
    activation = getattr(layer, "activation", None)
    if activation is None:
        return False
    module = getattr(activation, "__module__", None) or type(activation).__module__
    own = not module.startswith("keras") or ".ops" in module
    return own or activation in _WIDE_ACTIVATIONS


def has_own_code(node: LayerNode) -> bool:
    """Whether a layer, with those that it made for itself, has code that has to be measured.

    Keras's layers that divide by norms are float32 by rule, and hand on steep gradients.
    """
    if node.head is not None:
        return False
    if is_graph(node.layer):
        return bool(operations_of(node.layer))
    return any(is_custom(part.layer) or divides_by_norm(part.layer) for part in node.unit())


@contextmanager
def policies_kept(nodes: Iterable[LayerNode]) -> Iterator[None]:
    """Restores the dtype policies of layers, which the block may set."""
    # The attribute behind the property: Keras's setter would write into a shared DTypePolicyMap.
    before = [(node.layer, node.layer._dtype_policy) for node in nodes]
    try:
        yield
    finally:
        for layer, policy in before:
            layer._dtype_policy = policy


@contextmanager
def losses_kept(root: LayerNode) -> Iterator[None]:
    """Restores the losses that layers remember from their `add_loss` calls."""
    before = [(n.layer, list(n.layer._losses), set(n.layer._loss_ids)) for n in root.within()]
    try:
        yield
    finally:
        for layer, losses, ids in before:
            layer._losses[:] = losses
            layer._loss_ids.clear()
            layer._loss_ids.update(ids)
