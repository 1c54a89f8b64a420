"""Sums of exponentials that FP16 can hold.

The logarithm of a sum of exponentials is rarely large, and an exponential's share in the sum never;
the exponentials are large, from exp(11.1) on, or zero, below exp(-17.3). With the largest exponent
taken out first, none is above 1, and one is 1. A logarithm gets it back.
"""

from dataclasses import replace

import numpy as np

from tfmp.converters.intake import Chain, Filling, Graph, Node, log1p
from tfmp.converters.tflite.rewriting.masks import behind
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

# What may lie between a maximum and its subtraction.
_PASSED = frozenset(
    "Identity StopGradient SelectV2 IsFinite Reshape Squeeze Maximum Minimum".split()
)
# Of the same operands they give the same.
_ELEMENTWISE = frozenset("Exp Neg Add AddV2 Sub Mul RealDiv".split())


def logarithm(node: Node, graph: Graph) -> Chain | Filling | None:
    """log(sum(exp(x))) as m + log(sum(exp(x - m))), m the largest x; log(1 + x) accurately."""
    given = graph.makers[node.inputs[0]]
    function: Filling = softplus
    if node.op == "Log1p":
        if given.op != "Exp":
            return log1p
    elif given.op == "Sum" and graph.static(given.inputs[1]) is not None:
        function, given = _log_of_sum(given, graph), graph.makers[given.inputs[0]]
    elif given.op in ("Add", "AddV2"):
        known = [graph.static(name) for name in given.inputs]
        ones = [value is not None and bool((value == 1).all()) for value in known]
        given = graph.makers[given.inputs[ones.index(False)]] if sum(ones) == 1 else given
    if given.op != "Exp":
        return None
    return None if _is_small(given, graph) else (replace(node, inputs=given.inputs), function)


def _is_small(power: Node, graph: Graph) -> bool:
    """Whether an exponential is at most 1: its largest exponent is taken out already."""
    below = graph.makers[power.inputs[0]]
    if below.op == "Sub":
        return behind(graph, below.inputs[1], _PASSED).op == "Max"
    return below.op == "Neg" and graph.makers[below.inputs[0]].op == "Abs"


def share(node: Node, graph: Graph) -> Chain | None:
    """exp(x) / sum(exp(x)) as a softmax, which takes the largest exponent out."""
    import tensorflow as tf

    power, total = (graph.makers[name] for name in node.inputs)
    if power.op != "Exp" or total.op != "Sum" or not total.attributes["keep_dims"].b:
        return None
    axes = graph.static(total.inputs[1])
    if axes is None or axes.size != 1 or not _alike(total.inputs[0], power.outputs[0], graph):
        return None
    axis = int(axes.item())
    return replace(node, inputs=power.inputs), lambda x: tf.nn.softmax(x, axis)


def _alike(one: str, other: str, graph: Graph) -> bool:
    """Whether tensors are equal, perhaps because code computes them twice."""
    if one == other:
        return True
    known, same = graph.static(one), graph.static(other)
    if known is not None and same is not None:
        return np.array_equal(known, same)
    first, second = graph.makers[one], graph.makers[other]
    if first.op != second.op or first.op not in _ELEMENTWISE:
        return False
    pairs = zip(first.inputs, second.inputs, strict=True)
    return all(_alike(own, its, graph) for own, its in pairs)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), which is log(exp(0) + exp(x))."""
    import tensorflow as tf

    return tf.nn.relu(x) + tf.math.log(1.0 + tf.exp(-tf.abs(x)))


def _log_of_sum(total: Node, graph: Graph) -> Filling:
    import tensorflow as tf

    axes = np.asarray(graph.static(total.inputs[1])).reshape(-1).tolist()
    keep = total.attributes["keep_dims"].b

    def log_of_sum(x: Tensor) -> Tensor:
        # The difference of infinities is no number.
        largest = tf.reduce_max(x, axes, keepdims=True)
        largest = tf.clip_by_value(largest, -FLOAT16.max, FLOAT16.max)
        result = tf.math.log(tf.reduce_sum(tf.exp(x - largest), axes, keepdims=True)) + largest
        return result if keep else tf.squeeze(result, axes)

    return log_of_sum
