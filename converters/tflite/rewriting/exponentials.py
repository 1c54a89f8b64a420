"""Logarithms of sums of exponentials that FP16 can hold.

The logarithm of a sum of exponentials is rarely large; the exponentials are, from exp(11.1) on.
With the largest exponent taken out first, none is above 1, and it is added to the logarithm again.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tfmp.converters.intake import Edits, Filling, Graph, Node
from tfmp.shared.backend import Tensor


def tame_exponentials(graph: Graph, edits: Edits) -> None:
    """Rewrites log(sum(exp(x))) as m + log(sum(exp(x - m))), m the largest x; a `Rewrite`."""
    for chain, function in _chains(graph):
        edits.replace(replace(chain[0], inputs=chain[-1].inputs), function, graph)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), which is log(exp(0) + exp(x))."""
    import tensorflow as tf

    return tf.nn.relu(x) + tf.math.log(1.0 + tf.exp(-tf.abs(x)))


def _chains(graph: Graph) -> Iterator[tuple[tuple[Node, ...], Filling]]:
    """A logarithm, its sum and its exponentials, which nothing else reads, and their function."""
    for log in graph.nodes:
        if log.op not in ("Log", "Log1p"):
            continue
        chain, function = [log, graph.makers[log.inputs[0]]], softplus
        if log.op == "Log":
            exponentials, function = _added(chain[1], graph)
            chain.append(graph.makers[exponentials])
        alone = all(
            graph.readers(node.outputs[0]) == [reader] and node.outputs[0] not in graph.outputs
            for reader, node in pairwise(chain)
        )
        if alone and chain[-1].op == "Exp":
            yield tuple(chain), function


def _added(total: Node, graph: Graph) -> tuple[str, Filling]:
    """The tensor that a node adds up, or adds to 1, and the function if it is of exponentials."""
    if total.op == "Sum" and graph.static(total.inputs[1]) is not None:
        return total.inputs[0], _log_of_sum(total, graph)
    if total.op in ("Add", "AddV2"):
        for one, other in (total.inputs, total.inputs[::-1]):
            known = graph.static(one)
            if known is not None and (known == 1).all():
                return other, softplus
    return total.outputs[0], softplus


def _log_of_sum(total: Node, graph: Graph) -> Filling:
    import tensorflow as tf

    axes = np.asarray(graph.static(total.inputs[1])).reshape(-1).tolist()
    keep = total.attributes["keep_dims"].b

    def log_of_sum(x: Tensor) -> Tensor:
        largest = tf.reduce_max(x, axes, keepdims=True)
        result = tf.math.log(tf.reduce_sum(tf.exp(x - largest), axes, keepdims=True)) + largest
        return result if keep else tf.squeeze(result, axes)

    return log_of_sum
