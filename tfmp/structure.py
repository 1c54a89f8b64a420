"""What layers a Keras model has, where they are, and which of them produce its outputs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import layers

# The row of the model itself. It cannot be a layer's name: Keras forbids "/" in those.
ROOT = "/"


@dataclass(frozen=True, eq=False)
class LayerNode:
    """A layer in its place.

    Attributes:
        path: names of the layers that contain it and its own, joined by "/"; `ROOT` for the model.
        layer: the live layer.
        owner: the layer that contains it; None for the model.
        head: the built-in layer that made this one for itself and decides for it (the LSTM of an
            LSTM cell, the attention layer of its query projection); None for all others.
        children: what it contains, in the order in which Keras tracks them.
    """

    path: str
    layer: layers.Layer
    owner: "LayerNode | None" = None
    head: "LayerNode | None" = None
    children: "list[LayerNode]" = field(default_factory=list, repr=False)

    def within(self) -> Iterator["LayerNode"]:
        """This layer and everything in it."""
        yield self
        for child in self.children:
            yield from child.within()


def walk(model: keras.Model) -> LayerNode:
    """The tree of a model's layers, no `InputLayer`s; a shared layer stands where first met."""
    return _grow(LayerNode(ROOT, model), {id(model)})


def _grow(node: LayerNode, seen: set[int]) -> LayerNode:
    taken: dict[str, int] = {}
    for layer in node.layer._flatten_layers(include_self=False, recursive=False):
        if id(layer) in seen or isinstance(layer, layers.InputLayer):
            continue
        seen.add(id(layer))
        taken[layer.name] = taken.get(layer.name, 0) + 1
        # Two layers may share a name inside a subclassed model; a path has to be one layer's.
        name = layer.name if taken[layer.name] == 1 else f"{layer.name}#{taken[layer.name]}"
        path = name if node.path == ROOT else f"{node.path}/{name}"
        head = node.head or (node if _makes_its_own_layers(node.layer) else None)
        node.children.append(_grow(LayerNode(path, layer, node, head), seen))
    return node


def is_builtin(layer: layers.Layer) -> bool:
    """Whether Keras itself defines the layer's class."""
    return type(layer).__module__.split(".")[0] == "keras"


def _makes_its_own_layers(layer: layers.Layer) -> bool:
    """Whether what a layer contains is its own affair rather than the user's.

    Such sublayers are not in the layer's config: a reload makes them with the layer's policy, so
    any other choice would be lost by saving.
    """
    if isinstance(layer, keras.Model) or not is_builtin(layer):
        return False
    if isinstance(layer, layers.Wrapper):
        return not isinstance(layer.layer, keras.Model)
    return True


def output_layers(model: keras.Model, tree: LayerNode) -> dict[int, LayerNode]:
    """The layers that compute what the loss sees, by id of the layer.

    Args:
        model: a built model.
        tree: what `walk(model)` gave.

    Returns:
        Every layer whose result reaches an output of the model with at most other than layers
        between (an `ops.add`, a slice), or with layers that only move values (`Reshape`). Where a
        model's own code adds such operations, the model is among them: its own weights take part.
    """
    by_id = {id(node.layer): node for node in tree.within()}
    found: dict[int, LayerNode] = {}
    _mark_outputs(by_id[id(model)], by_id, found)
    return found


def _mark_outputs(
    node: LayerNode,
    by_id: dict[int, LayerNode],
    found: dict[int, LayerNode],
) -> None:
    if id(node.layer) in found:
        return
    outputs = _graph_outputs(node.layer)
    if outputs is None:
        found[id(node.layer)] = node
        for child in node.children:
            _mark_outputs(child, by_id, found)
        return
    for layer in _producers(outputs):
        if id(layer) in by_id:
            _mark_outputs(by_id[id(layer)], by_id, found)


def _graph_outputs(layer: layers.Layer) -> list[keras.KerasTensor] | None:
    """The output tensors of a graph of layers; None for a layer that is no such graph."""
    if not isinstance(layer, keras.Model):
        return None
    try:
        outputs = layer.outputs
    except AttributeError:
        return None
    return list(outputs) if outputs else None


# Layers that only move values: their result is rounded where the values were computed.
_MOVES_VALUES = (
    layers.Activation,
    layers.Cropping1D,
    layers.Cropping2D,
    layers.Cropping3D,
    layers.Dropout,
    layers.Flatten,
    layers.Identity,
    layers.Permute,
    layers.RepeatVector,
    layers.Reshape,
    layers.ZeroPadding1D,
    layers.ZeroPadding2D,
    layers.ZeroPadding3D,
)


def _only_moves_values(layer: Any) -> bool:
    if isinstance(layer, layers.Activation):
        return layer.activation is keras.activations.linear
    return isinstance(layer, _MOVES_VALUES)


def _producers(outputs: list[keras.KerasTensor]) -> list[layers.Layer]:
    """The layers found first when walking back from symbolic tensors."""
    result: list[layers.Layer] = []
    pending, seen = list(outputs), set()
    while pending:
        history = getattr(pending.pop(), "_keras_history", None)
        if history is None or history.operation is None:
            continue
        operation = history.operation
        node = operation._inbound_nodes[history.node_index]
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(operation, layers.Layer):
            result.append(operation)
            if not _only_moves_values(operation):
                continue
        pending.extend(node.input_tensors)
    return result
