"""Operations between the layers of a graph: they compute in the dtypes that layers hand them."""

from collections import deque
from collections.abc import Iterable, Mapping

import keras
from keras import layers

from tfmp.precision.layer_tree import (
    LayerNode,
    describe,
    is_graph,
    only_moves_values,
    operations_of,
    output_layers,
)
from tfmp.precision.tracing.hazards import (
    ARGUMENT,
    EXPONENTIAL,
    LOGARITHM,
    RESULT,
    SQUARE,
    SUM,
    Fact,
)
from tfmp.shared.numerics import FLOAT16


def has_operations(root: LayerNode) -> bool:
    """Whether a model has `keras.ops` between the layers of a graph, so that a run shows more."""
    return any(operations_of(node.layer) for node in root.within())


def with_sums_behind(root: LayerNode, facts: Iterable[Fact]) -> list[Fact]:
    """The facts, and a sum of its own for each operation whose squares another one sums."""
    facts = list(facts)
    known = {id(one): one for node in root.within() for one in operations_of(node.layer)}
    squares = {fact.layer for fact in facts if fact.kind == SQUARE}
    for fact in facts[:]:
        if fact.kind == SUM and fact.layer in known:
            behind = _operations_behind(known[fact.layer])
            facts += [Fact(key, SUM, fact.dtype) for key in behind & squares]
    return facts


def feeding_layers(root: LayerNode, found: Mapping[int, str]) -> dict[int, str]:
    """The layers to keep in float32 so that operations compute in it, with the reason.

    Args:
        root: the tree of the model.
        found: reasons to compute in float32, by id of the operation.
    """
    nodes = {id(node.layer): node for node in root.within()}
    kept: dict[int, str] = {}
    for node in root.within():
        for operation in operations_of(node.layer):
            reason = found.get(id(operation))
            if reason is None:
                continue
            for layer in _nearest_layers(operation):
                if id(layer) in nodes:
                    for part in _that_compute(nodes[id(layer)]):
                        kept.setdefault(part, f"feeds {operation.name}, which {reason}")
    return kept


def own_exponentials(root: LayerNode, facts: Iterable[Fact]) -> list[Fact]:
    """The exponentials that a model's own code takes in FP16 between its layers."""
    return [
        fact
        for fact in facts
        if (fact.layer, fact.kind, fact.dtype) == (id(root.layer), EXPONENTIAL, "float16")
        and not is_graph(root.layer)
    ]


def feeding_own_code(
    root: LayerNode, exponentials: Iterable[Fact], found: Mapping[int, str]
) -> dict[int, str]:
    """The model and the layers to keep in float32 so that it takes its exponentials in float32."""
    nodes = {id(node.layer): node for node in root.within()}
    kept: dict[int, str] = {}
    for fact in exponentials:
        reason = kept[fact.layer] = found[fact.layer]
        for other in nodes.keys() & set(fact.others):
            text = f"feeds {describe(root.path)}, which {reason}"
            kept.update((part, text) for part in _that_compute(nodes[other]))
    return kept


def readers_of_exponentials(root: LayerNode, facts: Iterable[Fact]) -> dict[int, str]:
    """The layers that read exponentials of other code, with the reason.

    In FP16 they would cast them to infinity.
    """
    nodes = {id(node.layer): node for node in root.within()}
    names = {id(one): one.name for node in root.within() for one in operations_of(node.layer)}
    names.update((key, describe(node.path)) for key, node in nodes.items())
    read = [fact for fact in facts if fact.kind == ARGUMENT and fact.layer in nodes]
    kept: dict[int, str] = {}
    before = -1
    while len(kept) > before:
        before = len(kept)
        for reader, maker, origin in ((fact.layer, *fact.others) for fact in read):
            passed_on = maker in kept and only_moves_values(nodes[maker].layer)
            if reader in kept or reader == origin or not (maker == origin or passed_on):
                continue
            of = names.get(origin, "the model")
            reason = f"reads exponentials of {of}, which may be infinite in float16"
            kept.update((id(part.layer), reason) for part in nodes[reader].unit())
    return kept


def around_logarithms(root: LayerNode, facts: Iterable[Fact]) -> dict[int, str]:
    """The layers to keep in float32 so that logarithms of shares are, from the share on."""
    nodes = {id(node.layer): node for node in root.within() if not is_graph(node.layer)}
    smallest = 1 / FLOAT16.overflow_threshold
    reason = f"logarithms, whose gradients are infinite in float16 up to {smallest:.2g}"
    kept: dict[int, str] = {}
    for fact in facts:
        if fact.kind == LOGARITHM:
            for key in nodes.keys() & {fact.layer, *fact.others}:
                text = f"takes {reason}" if key == fact.layer else f"its results go into {reason}"
                kept.update(dict.fromkeys((id(one.layer) for one in nodes[key].unit()), text))
            operations = {fact.layer, *fact.others} - nodes.keys()
            for key, text in feeding_layers(
                root, dict.fromkeys(operations, f"takes {reason}")
            ).items():
                kept.setdefault(key, text)
    return kept


def readers_of_powers(
    root: LayerNode, facts: Iterable[Fact], found: Mapping[int, str]
) -> dict[int, str]:
    """The layers that read the high powers of layers kept in float32, with the reason.

    In FP16 they would cast them to infinity.
    """
    nodes = {id(node.layer): node for node in root.within()}
    returns = {fact.layer for fact in facts if fact.kind == RESULT}
    pending = [nodes[key] for key in returns & found.keys() & nodes.keys()]
    kept: dict[int, str] = {}
    while pending:
        node = pending.pop()
        for call in node.layer._outbound_nodes:
            reader = nodes.get(id(call.operation))
            if reader is None or id(reader.layer) in kept or reader is root:
                continue
            reason = f"reads the result of {node.path}, which may be infinite in float16"
            kept.update((part, reason) for part in _that_compute(reader))
            if only_moves_values(reader.layer):
                pending.append(reader)
    return kept


def _that_compute(node: LayerNode) -> set[int]:
    """The layers that a result of this one comes from: of a model, the layers at its outputs."""
    if isinstance(node.layer, keras.Model):
        return set(output_layers(node)) | {id(node.layer)}
    return {id(part.layer) for part in node.within()}


def _nearest_layers(operation: keras.Operation) -> list[layers.Layer]:
    """The layer whose float32 makes an operation float32: one operand promotes the others.

    Layers that move values are float32 with the layers before them.
    """
    found: list[layers.Layer] = []
    pending, seen = deque([operation]), {id(operation)}
    while pending:
        for source in _sources(pending.popleft()):
            if id(source) in seen:
                continue
            seen.add(id(source))
            if isinstance(source, layers.InputLayer):
                continue
            if not isinstance(source, layers.Layer):
                pending.append(source)
                continue
            found.append(source)
            if not only_moves_values(source):
                return found
            pending.appendleft(source)
    return found


def _operations_behind(operation: keras.Operation) -> set[int]:
    """Ids of an operation and of those before it, up to the layers."""
    pending, found = [operation], {id(operation)}
    while pending:
        for source in _sources(pending.pop()):
            if not isinstance(source, layers.Layer) and id(source) not in found:
                found.add(id(source))
                pending.append(source)
    return found


def _sources(operation: keras.Operation) -> list[keras.Operation]:
    """The operations that make an operation's operands, as far as they are floating-point."""
    return [
        tensor._keras_history.operation
        for node in operation._inbound_nodes
        for tensor in node.input_tensors
        if "float" in keras.backend.standardize_dtype(tensor.dtype)
    ]
