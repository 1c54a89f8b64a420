"""The Keras layer that a node came from, for attribution and for error messages."""

import re
from collections.abc import Mapping

import onnx_ir as ir

from tfmp.converters.onnx.graph import UniqueNames
from tfmp.converters.shared.tensors import unique_name

_CALL = re.compile(r"(Stateful)?PartitionedCall(_\d+)?/")
_SCOPE = re.compile(r"(tfmp_layer_\d+)(?:_\d+)?(?=/|$)")

_MARK = re.compile(rf"{_SCOPE.pattern}/?")


def name_layers(model: ir.Model, layers: Mapping[str, str]) -> None:
    """Writes the layer of every node into its metadata, as "tfmp.layer".

    Args:
        model: the model, which is changed in place.
        layers: layer names by name scope, `Source.layers`; nested scopes give a path. Without any
            layers, a node keeps the scope of its name.

    Nodes that the export itself inserted belong to the layer of their operands, or else to the
    layer of their readers.
    """
    nodes = list(model.graph.all_nodes())
    found = {node: layer_of(node.name or "", layers) for node in nodes}
    for node in nodes:
        if not found[node]:
            producers = (value.producer() for value in node.inputs if value is not None)
            found[node] = next((found[p] for p in producers if p and found.get(p)), "")
    for node in reversed(nodes):
        if not found[node]:
            readers = (user for value in node.outputs for user in value.consumers())
            found[node] = next((found[r] for r in readers if found.get(r)), "")
    for node, layer in found.items():
        node.metadata_props["tfmp.layer"] = layer


def without_marks(model: ir.Model) -> None:
    """Takes the scopes that mark layers out of all names: these are read by people, too.

    Args:
        model: a model whose nodes know their layers; it is changed in place.
    """
    taken = UniqueNames(model)
    named = {node.name for graph in model.graphs() for node in graph}
    for graph in model.graphs():
        made = (value for node in graph for value in node.outputs)
        for value in (*graph.initializers.values(), *made):
            if value.name and _SCOPE.search(value.name):
                value.name = taken(_MARK.sub("", value.name))
        for node in graph:
            if node.name and _SCOPE.search(node.name):
                node.name = unique_name(_MARK.sub("", node.name), named)
                named.add(node.name)


def layer_of(name: str, layers: Mapping[str, str]) -> str:
    """The path of the layers whose scopes are in `name`, outermost first."""
    scopes = dict.fromkeys(scope for scope in _SCOPE.findall(name) if scope in layers)
    if scopes:
        return "/".join(layers[scope] for scope in scopes)
    return "" if layers else _CALL.sub("", name).rpartition("/")[0]


def with_layers(text: str, layers: Mapping[str, str]) -> str:
    """`text` with layer names in place of name scopes."""
    return _SCOPE.sub(lambda match: layers.get(match[1], match[0]), text)
