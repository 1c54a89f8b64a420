"""Operations that neither ONNX nor TFLite has, expressed in operations that both have."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from tfmp.converters.intake.saved.complex_numbers import PAIRS, by_parts
from tfmp.converters.intake.saved.elementary import ELEMENTARY
from tfmp.converters.intake.saved.graph import (
    Chain,
    Edits,
    Filling,
    Fillings,
    Gap,
    Graph,
    Node,
    always,
)
from tfmp.converters.intake.saved.lists import LIST
from tfmp.converters.intake.saved.onnx_forms import ONNX_FORMS
from tfmp.converters.intake.saved.pictures import PICTURES
from tfmp.converters.intake.saved.retracing import CONTROL
from tfmp.converters.shared.frameworks import TracedFunction
from tfmp.shared.backend import Tensor


def lacks(traced: TracedFunction, inputs: int) -> bool:
    """Whether a trace has loops, branches or lists, or such an operation that can be replaced."""
    main = Graph(traced, inputs)
    return any(node.op in (*CONTROL, LIST) for node in main.nodes) or bool(_fillings(main))


def fill(graph: Graph, edits: Edits) -> None:
    """Replaces the operations that tf2onnx lacks; this is a `Rewrite`."""
    edits.in_order = True
    edits.fill(_fillings)


def _fillings(graph: Graph) -> Fillings:
    return fillings_in(graph, {**FILLINGS, **ONNX_FORMS})


def fillings_in(graph: Graph, gaps: Mapping[str, Gap]) -> Fillings:
    """The operations of a graph that are among some gaps, each with its replacement."""
    found = [(node, filling(node, graph, gaps)) for node in graph.nodes]
    return [one if isinstance(one, tuple) else (node, one) for node, one in found if one]


def filling(node: Node, graph: Graph, gaps: Mapping[str, Gap]) -> Filling | Chain | None:
    """The replacement of complex arithmetic, or of an operation among some gaps.

    A gap reads the sizes of its inputs: where a loop leaves their rank open, there is none.
    """
    ranked = all(graph.specs[name].shape.rank is not None for name in node.inputs)
    own = gaps[node.op](node, graph) if ranked and node.op in gaps else None
    return by_parts(node, graph) or own


_SIGN = np.int32(-(2**31))


def sign_bit(node: Node, graph: Graph) -> Chain | None:
    """The sign bit of a float as an integer, which ONNX and GPUs cannot read from its bits.

    Keras takes argmax, argmin and signbit through it, to tell -0 from 0; 1 / x is negative for just
    the negative values and -0.
    """
    import tensorflow as tf

    masks = [graph.static(name) for name in node.inputs]
    signs = [one is not None and bool((one == _SIGN).all()) for one in masks]
    if sum(signs) != 1:
        return None
    maker = graph.makers[node.inputs[signs.index(False)]]
    if maker.op != "Bitcast" or graph.specs[maker.inputs[0]].dtype != tf.float32:
        return None
    # 1 / -inf is -0, which is not below zero: infinities are looked at as they are.
    return replace(node, inputs=maker.inputs), lambda x: tf.where(
        (x < 0.0) | (tf.math.reciprocal(x) < 0.0), _SIGN, np.int32(0)
    )


def _left_shift(node: Node, graph: Graph) -> Filling | None:
    """A product with a power of two."""
    import tensorflow as tf

    if graph.specs[node.outputs[0]].dtype != tf.int32:
        return None
    powers = np.left_shift(np.int32(1), np.arange(32, dtype=np.int32))
    return lambda x, count: x * tf.gather(powers, tf.minimum(tf.maximum(count, 0), 31))


def _sorted_search(node: Node, graph: Graph, upper: bool) -> Filling:
    """The number of elements of a sorted row that stand before each value."""
    import tensorflow as tf

    dtype = graph.specs[node.outputs[0]].dtype

    def found(rows: Tensor, values: Tensor) -> Tensor:
        compare = tf.less_equal if upper else tf.less
        before = compare(tf.expand_dims(rows, -2), tf.expand_dims(values, -1))
        return tf.cast(tf.reduce_sum(tf.cast(before, tf.int32), -1), dtype)

    return found


def _dense_bincount(node: Node, graph: Graph) -> Filling | None:
    """How often each number comes in each row, or the sum of its weights, or whether it comes."""
    import tensorflow as tf

    known = _clamped(node.inputs[1], graph)
    dtype, binary = graph.specs[node.outputs[0]].dtype, node.attributes["binary_output"].b
    weighted = graph.specs[node.inputs[2]].shape.num_elements() != 0

    def counted(numbers: Tensor, size: Tensor, weights: Tensor) -> Tensor:
        depth = size if known is None else known
        marks = tf.one_hot(tf.cast(numbers, tf.int32), depth, dtype=tf.float32)
        if binary:
            return tf.cast(tf.reduce_max(marks, -2), dtype)
        marks = marks * tf.cast(weights, tf.float32)[..., None] if weighted else marks
        return tf.cast(tf.reduce_sum(marks, -2), dtype)

    return counted


def _clamped(name: str, graph: Graph) -> int | None:
    """The value of a tensor that is limited to one number from below and above."""
    upper = graph.makers[name]
    if upper.op != "Minimum":
        value = graph.static(name)
        return None if value is None or value.size != 1 else int(value.item())
    lower = next((graph.makers[one] for one in upper.inputs if graph.static(one) is None), None)
    limits = {
        int(value)
        for one in (*upper.inputs, *(lower.inputs if lower and lower.op == "Maximum" else ()))
        if (value := graph.static(one)) is not None
    }
    both = lower is not None and lower.op == "Maximum" and len(limits) == 1
    return limits.pop() if both else None


def _lookup(node: Node, graph: Graph) -> Chain | None:
    """The value beside a number in a table, which is sorted and halved until one place is left."""
    import tensorflow as tf

    handles = {inner.name: outer for outer, inner in graph.traced.graph.captures}
    kinds = [tf.as_dtype(node.attributes[name].type) for name in ("Tin", "Tout")]
    if tf.string in kinds or node.inputs[0] not in handles:
        return None
    with tf.init_scope():
        table = tf.raw_ops.LookupTableExportV2(
            table_handle=handles[node.inputs[0]], Tkeys=kinds[0], Tvalues=kinds[1]
        )
    order = np.argsort(table.keys)
    depth = (len(order) - 1).bit_length()
    behind = (0, 2**depth - len(order))
    keys, values = (np.pad(np.asarray(one)[order], behind, "edge") for one in table)

    def found(wanted: Tensor, default: Tensor) -> Tensor:
        place = tf.zeros_like(wanted, tf.int32)
        for step in reversed([2**level for level in range(depth)]):
            beyond = place + step
            place = tf.where(tf.gather(keys, beyond) <= wanted, beyond, place)
        return tf.where(tf.equal(tf.gather(keys, place), wanted), tf.gather(values, place), default)

    return replace(node, inputs=node.inputs[1:]), found


def _in_top_k(scores: Tensor, targets: Tensor, k: Tensor) -> Tensor:
    """Whether fewer than k scores of a row beat the score of its target."""
    import tensorflow as tf

    own = tf.gather(scores, targets[:, None], batch_dims=1)
    better = tf.reduce_sum(tf.cast(scores > own, tf.int32), -1)
    return better < tf.cast(k, tf.int32)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """The vector that stands upright on two others."""
    import tensorflow as tf

    def turned(x: Tensor, first: int) -> Tensor:
        return tf.gather(x, [(first + step) % 3 for step in range(3)], axis=-1)

    return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)


FILLINGS: dict[str, Gap] = {
    **ELEMENTARY,
    **PAIRS,
    **PICTURES,
    "BitwiseAnd": sign_bit,
    "Cross": always(_cross),
    "DenseBincount": _dense_bincount,
    "InTopKV2": always(_in_top_k),
    "LeftShift": _left_shift,
    "LookupTableFindV2": _lookup,
    "LowerBound": partial(_sorted_search, upper=False),
    "UpperBound": partial(_sorted_search, upper=True),
}
