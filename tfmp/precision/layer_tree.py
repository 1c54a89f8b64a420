"""The layers of a Keras model, their places, and the layers that produce its outputs."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import keras
from keras import layers

# The row of the model itself. It cannot be a layer's name: Keras forbids "/" in those.
ROOT = "/"


@dataclass(frozen=True, eq=False)
class LayerNode:
    """A layer in its place.

    Attributes:
        path: names of the layers that contain it and its own name, joined by "/"; `ROOT` for the
            model.
        layer: the layer itself.
        owner: the layer that contains it; None for the model.
        head: the built-in layer that made this one for itself and decides for it (the LSTM of an
            LSTM cell, the attention layer of its query projection); None for all others.
        children: the layers that it contains, in the order in which Keras tracks them.
    """

    path: str
    layer: layers.Layer
    owner: "LayerNode | None" = None
    head: "LayerNode | None" = None
    children: "list[LayerNode]" = field(default_factory=list, repr=False)

    def within(self) -> Iterator["LayerNode"]:
        """This layer and all layers in it."""
        yield self
        for child in self.children:
            yield from child.within()

    def unit(self) -> "list[LayerNode]":
        """This layer and the layers that it made for itself: they are decided as one."""
        head = self.head or self
        return [part for part in self.within() if part is self or part.head is head]


def walk(model: keras.Model) -> LayerNode:
    """The tree of a model's layers without `InputLayer`s; a shared layer has its first place."""
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


def describe(path: str) -> str:
    """A path as it reads in messages."""
    return "the model" if path == ROOT else path


def is_builtin(layer: layers.Layer) -> bool:
    """Whether Keras itself defines the layer's class."""
    return type(layer).__module__.split(".")[0] == "keras"


def _makes_its_own_layers(layer: layers.Layer) -> bool:
    """Whether a layer made the layers in it for itself, so that the user does not decide for them.

    Such sublayers are not in the layer's config: a reload makes them with the layer's policy, so
    any other choice would be lost by saving.
    """
    if isinstance(layer, keras.Model | layers.Pipeline) or not is_builtin(layer):
        return False
    return not (isinstance(layer, layers.Wrapper) and isinstance(layer.layer, keras.Model))


def has_call(layer: layers.Layer) -> bool:
    """Whether a layer can be called; a model with a `train_step` of its own needs no `call`."""
    return type(layer).call is not keras.Model.call


def is_graph(layer: layers.Layer) -> bool:
    """Whether a model is a graph of layers (Functional, Sequential), without code of its own."""
    return _graph_outputs(layer) is not None


# Activations of Keras that have no 16-bit kernel on TensorFlow, or are infinite in FP16 from 11 on.
_WIDE_ACTIVATIONS = (keras.activations.exponential, keras.activations.sparsemax)

# Layers of Keras that call a user's function, an exported model, or code of other frameworks.
_OF_FOREIGN_CODE = (layers.Lambda, layers.TFSMLayer, layers.JaxLayer, layers.TorchModuleWrapper)


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

    Operations between the layers of a graph are such code. Keras's layers that divide by norms are
    float32 by rule, and hand on steep gradients.
    """
    if node.head is not None:
        return False
    if is_graph(node.layer):
        operations = getattr(node.layer, "_operations", ())  # a Sequential has none
        return any(not isinstance(operation, layers.Layer) for operation in operations)
    return any(is_custom(part.layer) or divides_by_norm(part.layer) for part in node.unit())


def output_layers(root: LayerNode) -> frozenset[int]:
    """The layers that compute a graph model's outputs, by id, without running anything.

    Their results reach an output directly, or only through layers that move or merge values
    (`Reshape`, `Concatenate`). In a layer with code of its own all layers count: only a run can
    tell more.
    """
    nodes = {id(node.layer): node for node in root.within()}
    found: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        outputs = _graph_outputs(node.layer)
        if outputs is None:
            found.update(id(part.layer) for part in node.within())
        else:
            pending += [nodes[id(one)] for one in _producers(outputs) if id(one) in nodes]
    return frozenset(found)


def _graph_outputs(layer: layers.Layer) -> list[keras.KerasTensor] | None:
    """The output tensors of a graph of layers; None for a layer that is not a graph."""
    if not isinstance(layer, keras.Model):
        return None
    if not type(layer).call.__module__.startswith("keras."):
        return None  # a subclass that does something else with the graph's layers
    try:
        return list(layer.outputs) or None
    except AttributeError:
        return None


# Layers that only move or merge values, as operations do: their result is rounded where the values
# were computed. The average of two softmaxes, or both of them side by side, is an output.
_MOVING = ("keras.src.layers.reshaping.", "keras.src.layers.merging.")
_COMPUTING = (layers.Dot, layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D)


def only_moves_values(layer: layers.Layer) -> bool:
    """Whether a layer returns values that were computed before it."""
    if isinstance(layer, layers.Activation):
        return layer.activation is keras.activations.linear
    if isinstance(layer, layers.Dropout | layers.Identity):
        return True
    return type(layer).__module__.startswith(_MOVING) and not isinstance(layer, _COMPUTING)


def is_preprocessing(layer: layers.Layer) -> bool:
    """Whether a layer of Keras takes raw values, of pixels and sensors, words and categories."""
    is_one = ".preprocessing." in type(layer).__module__ and is_builtin(layer)
    return is_one and not isinstance(layer, layers.Pipeline)


def divides_by_norm(layer: layers.Layer) -> bool:
    """Whether a layer of Keras divides by norms, with an epsilon of 1e-12 that is 0 in FP16."""
    if isinstance(layer, layers.Dot):
        return bool(layer.normalize)
    return isinstance(layer, layers.UnitNormalization)


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
            if not only_moves_values(operation):
                continue
        pending.extend(node.input_tensors)
    return result
