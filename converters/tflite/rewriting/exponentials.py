"""Sums of exponentials that FP16 can hold.

The logarithm of a sum of exponentials is rarely large; the exponentials are, from exp(11.1) on.
With the largest exponent taken out first, none is above 1, and it is added to the logarithm again.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tfmp.converters.intake import Edits, Graph, Node
from tfmp.shared.backend import Tensor


def tame_exponentials(graph: Graph, edits: Edits) -> None:
    """Rewrites log(sum(exp(x))) as m + log(sum(exp(x - m))), m the largest x; a `Rewrite`."""
    for log, total, exponentials in _chains(graph):
        whole = replace(log, inputs=exponentials.inputs)
        edits.replace(whole, _log_of_sum(total, graph), graph)
        edits.drop(total.name, exponentials.name)


def _chains(graph: Graph) -> Iterator[tuple[Node, Node, Node]]:
    for log in graph.nodes:
        total = graph.makers[log.inputs[0]] if log.op == "Log" else None
        if total is None or total.op != "Sum" or graph.static(total.inputs[1]) is None:
            continue
        exponentials = graph.makers[total.inputs[0]]
        alone = graph.readers(total.outputs[0]) == [log] and log.inputs[0] not in graph.outputs
        if exponentials.op == "Exp" and alone:
            name = exponentials.outputs[0]
            if graph.readers(name) == [total] and name not in graph.outputs:
                yield log, total, exponentials


def _log_of_sum(total: Node, graph: Graph) -> Callable[[Tensor], Tensor]:
    import tensorflow as tf

    axes = np.asarray(graph.static(total.inputs[1])).reshape(-1).tolist()
    keep = total.attributes["keep_dims"].b

    def log_of_sum(x: Tensor) -> Tensor:
        largest = tf.reduce_max(x, axes, keepdims=True)
        result = tf.math.log(tf.reduce_sum(tf.exp(x - largest), axes, keepdims=True)) + largest
        return result if keep else tf.squeeze(result, axes)

    return log_of_sum
