"""Operations that TFLite lacks, expressed in operations that it has.

Each replacement is exact, or as accurate as float32; on a GPU it runs where the original could not.
The export refuses any other operation that TFLite lacks, and names its layer.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tfmp.converters.intake import (
    FILLINGS,
    Chain,
    Edits,
    Filling,
    Fillings,
    Gap,
    Graph,
    Node,
    Source,
    absolute_values,
    by_tables,
    filling,
    fillings_in,
    gives_complex,
    log1p,
    sign_bit,
    spectra,
)
from tfmp.converters.tflite.file import layer_of
from tfmp.converters.tflite.rewriting.exponentials import logarithm, share, softplus
from tfmp.converters.tflite.rewriting.masks import behind, finite_masks, mask_constants
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

_FLOAT64 = 2  # tensorflow.DataType
_STEP = 2.0**14  # FP16 holds it


def without_gaps(source: Source) -> tuple[Source, tuple[str, ...]]:
    """The same model in operations that TFLite and FP16 have, and the changes in words.

    Besides filling gaps, this keeps masks finite: TensorFlow's converter would clamp them.
    """
    graph = Graph(source.graph, len(source.inputs))
    replaced = {
        "complex numbers" if gives_complex(node, one) else one.makers[node.outputs[0]].op
        for one in (graph, *graph.bodies.values())
        for node, _ in _fillings(one)
    }
    masks, wide = mask_constants(graph), _computes_in_float64(graph)
    if _has_lists(graph):
        replaced.add("lists")
    if not replaced and not masks and not wide:
        return source, ()
    notes = []
    if replaced:
        notes.append(f"expressed in operators that TFLite has: {', '.join(sorted(replaced))}")
    if masks:
        layers = dict.fromkeys(layer_of(node.name) or node.name for node in masks)
        notes.append(f"masks became finite numbers that FP16 holds: {', '.join(layers)}")
    if wide:
        notes.append("float64 parts, such as a division by np.log(10.0), compute in float32")
    return source.rewritten(_say), tuple(notes)


def _computes_in_float64(graph: Graph) -> bool:
    """Whether operations between float32 inputs, weights and outputs compute in float64."""
    wide = {name for name, spec in graph.specs.items() if spec.dtype.name == "float64"}
    given = ("Placeholder", "ReadVariableOp")
    ends = [name for node in graph.nodes if node.op in given for name in node.outputs]
    return bool(wide) and wide.isdisjoint((*ends, *graph.outputs))


def _has_lists(graph: Graph) -> bool:
    """Whether a list is filled without a loop."""
    stacks = (node for node in graph.nodes if node.op == "TensorListStack")
    return any(graph.makers[node.inputs[0]].op == "TensorListSetItem" for node in stacks)


def _say(graph: Graph, edits: Edits) -> None:
    edits.fill(_fillings)
    if _computes_in_float64(graph):
        edits.narrow = (_FLOAT64,)
    finite_masks(graph, edits)


def _fillings(graph: Graph) -> Fillings:
    return fillings_in(graph, GAPS)


def _pool_3d(node: Node, graph: Graph, pool: str) -> Filling | None:
    """Pools planes, then pools along the depth: maxima and means of equal windows compose."""
    import tensorflow as tf

    _, depth, *window = node.attributes["ksize"].list.i
    _, depth_step, *steps = node.attributes["strides"].list.i
    padding = node.attributes["padding"].s.decode()
    if node.attributes["data_format"].s != b"NDHWC":
        return None
    pool_2d = getattr(tf.nn, pool)

    def pooled(x: Tensor) -> Tensor:
        size, channels = tf.shape(x), x.shape[4]
        planes = tf.reshape(x, (-1, *x.shape[2:5]))
        planes = pool_2d(planes, window[:2], steps[:2], padding)
        height, width = planes.shape[1:3]
        columns = tf.reshape(planes, (-1, x.shape[1] or size[1], height * width, channels))
        columns = pool_2d(columns, (depth, 1), (depth_step, 1), padding)
        left = columns.shape[1] or tf.shape(columns)[1]  # behind a loop it may be unknown
        return tf.reshape(columns, (size[0], left, height, width, channels))

    return pooled


def _erf(node: Node, graph: Graph, complement: bool) -> Filling:
    """Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: off by 1.5e-7 at most."""
    import tensorflow as tf

    def erf(x: Tensor) -> Tensor:
        size = tf.abs(x)
        t = 1.0 / (1.0 + 0.3275911 * size)
        series = 1.061405429
        for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            series = factor + t * series
        value = tf.sign(x) * (1.0 - t * series * tf.exp(-size * size))
        return 1.0 - value if complement else value

    return erf


def _elementary(node: Node, graph: Graph) -> Filling | None:
    """Trigonometric and hyperbolic functions by those that TFLite has."""
    import tensorflow as tf

    def leg(x: Tensor) -> Tensor:
        """The other leg of a right triangle with hypotenuse 1; exact near 1."""
        return tf.sqrt((1.0 - x) * (1.0 + x))

    def cosh(x: Tensor) -> Tensor:
        return 0.5 * (tf.exp(x) + tf.exp(-x))

    def asinh(x: Tensor) -> Tensor:
        size = tf.abs(x)
        return tf.sign(x) * log1p(size + size * size / (1.0 + tf.sqrt(size * size + 1.0)))

    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "Acos": lambda x: tf.atan2(leg(x), x),
        "Acosh": lambda x: tf.math.log(x + tf.sqrt(x - 1.0) * tf.sqrt(x + 1.0)),
        "Asin": lambda x: tf.atan2(x, leg(x)),
        "Asinh": asinh,
        "Atan": lambda x: tf.atan2(x, tf.ones_like(x)),
        "Atanh": lambda x: 0.5 * tf.math.log((1.0 + x) / (1.0 - x)),
        "Cosh": cosh,
        "Sinh": lambda x: tf.tanh(x) * cosh(x),
        "Tan": lambda x: tf.sin(x) / tf.cos(x),
    }
    return functions[node.op] if graph.specs[node.outputs[0]].dtype == tf.float32 else None


def _bits(node: Node, graph: Graph) -> Filling | Chain | None:
    """And, or and not by shifts and exclusive or, which TFLite has; no sum leaves 32 bits."""
    import tensorflow as tf

    if graph.specs[node.outputs[0]].dtype != tf.int32:
        return None
    if node.op == "BitwiseAnd" and (sign := sign_bit(node, graph)):
        return sign

    def both(one: Tensor, other: Tensor) -> Tensor:
        high = [tf.bitwise.right_shift(value, tf.ones_like(value)) for value in (one, other)]
        lowest = [value - 2 * upper for value, upper in zip((one, other), high, strict=True)]
        # a + b is twice their common bits and the others once.
        return high[0] + high[1] - tf.bitwise.bitwise_xor(*high) + lowest[0] * lowest[1]

    def either(one: Tensor, other: Tensor) -> Tensor:
        return tf.bitwise.bitwise_xor(one, other) + both(one, other)

    def inverted(value: Tensor) -> Tensor:
        return -1 - value

    functions: dict[str, Filling] = {"BitwiseAnd": both, "BitwiseOr": either, "Invert": inverted}
    return functions[node.op]


def _dilated(node: Node, graph: Graph) -> Chain | None:
    """A dilated convolution over a size that varies.

    TensorFlow moves every n-th step to a batch of its own, convolves and moves the steps back. The
    converter sees through that where sizes are fixed; where they vary, LiteRT crashes on it.
    """
    import tensorflow as tf

    back = _made_by(graph, node.inputs[0], "Squeeze")
    convolution = graph.makers[back.inputs[0] if back else node.inputs[0]]
    apart = _made_by(graph, convolution.inputs[0], "ExpandDims") if back else convolution
    spread = _made_by(graph, apart.inputs[0], "SpaceToBatchND") if apart else None
    if convolution.op not in ("Conv2D", "DepthwiseConv2dNative") or spread is None:
        return None
    rates, start = graph.static(spread.inputs[1]), _first_number(spread.inputs[2], graph)
    shape = graph.specs[spread.inputs[0]].shape
    unit = set(convolution.attributes["strides"].list.i) == {1}
    if rates is None or start is None or not unit or shape.rank is None:
        return None
    if None not in shape[1 : 1 + len(rates)]:
        return None
    # Only "same" pads before the first step: nothing is padded there for "valid" and "causal".
    options = {
        "strides": (1, 1, 1, 1),
        "padding": "SAME" if start else "VALID",
        "dilations": (1, *(1,) * (2 - len(rates)), *map(int, rates), 1),
    }
    kind = getattr(tf.raw_ops, convolution.op)

    def convolved(x: Tensor, kernel: Tensor) -> Tensor:
        # As Keras does it, one-dimensional sequences are images of one row.
        given = tf.expand_dims(x, 1) if back else x
        result = kind(input=given, filter=kernel, **options)
        return tf.squeeze(result, 1) if back else result

    return replace(node, inputs=(spread.inputs[0], convolution.inputs[1])), convolved


def _scaled_sum(node: Node, graph: Graph) -> Chain | None:
    """A product or quotient of a sum and a number, by a mean in place of the sum.

    XNNPACK makes one operation of the two (`optimize_common_subgraphs_scaled_sum_to_mean`), which
    gives 0 where it computes in FP16.
    """
    import tensorflow as tf

    sums = [graph.makers[name].op == "Sum" and name in graph.floats for name in node.inputs]
    if sum(sums) != 1 or graph.specs[node.inputs[sums.index(False)]].shape.num_elements() != 1:
        return None
    total, factor = (graph.makers[node.inputs[sums.index(one)]] for one in (True, False))
    axes, shape = graph.static(total.inputs[1]), graph.specs[total.inputs[0]].shape
    over = [] if axes is None else np.reshape(axes, -1).tolist()
    sizes = [shape[axis] for axis in over] if shape.rank else []
    if not sizes or None in sizes or not graph.constants.issuperset(factor.outputs):
        return None
    known = graph.static(factor.outputs[0])
    count, keep = math.prod(sizes), total.attributes["keep_dims"].b
    power = -1 if node.op == "RealDiv" else 1
    whole = count * (1.0 if known is None or not known.item() else abs(known.item()) ** power)
    # Two factors where FP16 cannot hold their product; what is between lies between the ends.
    part = 1.0 if 2.0**-14 <= whole <= 2.0**15 else 2.0 ** (math.frexp(whole)[1] // 2)

    def scaled(x: Tensor, number: Tensor) -> Tensor:
        mean = tf.reduce_mean(x, over, keep)
        mean, rest = mean if part == 1 else mean * part, tf.fill(tf.shape(number), count / part)
        if node.op == "Mul":
            return mean * (rest * number)
        return mean * (rest / number) if sums[0] else (number / rest) / mean

    return replace(node, inputs=(total.inputs[0], *factor.outputs)), scaled


def _quotient(node: Node, graph: Graph) -> Filling | Chain | None:
    """A quotient by small numbers in two steps: the converter multiplies by their inverse.

    Files keep factors at the end of FP16, because larger ones are masks.
    """
    below = graph.static(node.inputs[1])
    sizes = np.abs(np.zeros(1) if below is None else below)
    small = (sizes > 0) & (sizes * FLOAT16.max < 1)
    if not small.any():
        return _scaled_sum(node, graph)
    step = np.where(small, _STEP, 1).astype(np.float32)
    return lambda x, number: x * step / (number * step)


def _made_by(graph: Graph, tensor: str, op: str) -> Node | None:
    maker = graph.makers[tensor]
    return maker if maker.op == op else None


def _first_number(tensor: str, graph: Graph) -> int | None:
    """The first number of a tensor that is put together of known and unknown ones."""
    value = graph.static(tensor)
    if value is not None:
        return int(value.flat[0])
    maker = graph.makers[tensor]
    if maker.op in ("Pack", "Identity", "StridedSlice", "ConcatV2"):
        return _first_number(maker.inputs[0], graph)
    return None


def _new_axes(node: Node, graph: Graph) -> Filling | None:
    """`x[:, None]` where sizes vary: axes are added after slicing."""
    import tensorflow as tf

    unknown = [size for size in graph.specs[node.inputs[0]].shape if size is None]
    begin, end, strides = (graph.static(name) for name in node.inputs[1:])
    masks = {name: one.i for name, one in node.attributes.items() if name.endswith("_mask")}
    added = masks["new_axis_mask"]
    if not added or len(unknown) < 2 or begin is None or end is None or strides is None:
        return None
    if masks["shrink_axis_mask"] or masks["ellipsis_mask"]:
        return None
    axes = range(len(begin))
    slices = tuple(
        slice(
            None if masks["begin_mask"] >> axis & 1 else int(begin[axis]),
            None if masks["end_mask"] >> axis & 1 else int(end[axis]),
            int(strides[axis]),
        )
        for axis in axes
        if not added >> axis & 1
    )

    def sliced(x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
        x = x[slices]
        for axis in axes:
            x = tf.expand_dims(x, axis) if added >> axis & 1 else x
        return x

    return sliced


def _bias_in_front(node: Node, graph: Graph) -> Filling | None:
    """A number for each channel, where channels come before one axis only."""
    import tensorflow as tf

    if node.attributes["data_format"].s != b"NCHW" or graph.specs[node.inputs[0]].shape.rank != 3:
        return None
    return lambda x, bias: x + tf.reshape(bias, (1, -1, 1))


def _one_bias(node: Node, graph: Graph) -> Filling | None:
    """A bias of one channel before a residual: the converter makes a BiasAdd of a wrong rank."""
    import tensorflow as tf

    one, other = (graph.specs[name].shape for name in node.inputs)
    added = any(reader.op == node.op for reader in graph.readers(node.outputs[0]))
    if other != (1,) or one.rank != 3 or one[-1] != 1 or not added:
        return None
    return lambda x, bias: x + tf.reshape(bias, ())


def _outer(node: Node, graph: Graph) -> Filling | None:
    """Rows of one number times a kernel: the converter makes a product of wrong sizes of it.

    It merges the kernel with that of the next product, if nothing but a bias lies between.
    """
    kernel = node.inputs[1]
    turned = node.attributes["transpose_a"].b or node.attributes["transpose_b"].b
    alone = graph.specs[kernel].shape[:1] == (1,) and kernel in graph.constants & graph.floats
    return None if turned or not alone else lambda x, kernel: x * kernel


# The second is what `tf.custom_gradient` leaves.
_PASSED_ON = frozenset(("Identity", "IdentityN"))
# A bias of zeros and a cast to the same type are nothing to the converter.
_DROPPED = _PASSED_ON | {"Add", "AddV2", "BiasAdd", "Cast", "Reshape"}


def _kept_activation(node: Node, graph: Graph) -> Filling | None:
    """An activation behind a product with a computed matrix, and a LeakyRelu without a leak.

    TensorFlow's converter (2.21) makes the activation a part of a full connection, makes of that a
    batched product, which has no activation, and forgets it. It has no form for the leaky one.
    """
    import tensorflow as tf

    product = behind(graph, node.inputs[0], _DROPPED)
    if product.op != "MatMul":
        return None
    if behind(graph, product.inputs[1], _PASSED_ON).op in ("Const", "ReadVariableOp"):
        return None
    kind = tf.nn.relu if node.op == "Relu" else tf.nn.relu6
    return lambda x: kind(tf.nn.leaky_relu(x, 0.0))


def _native_transform(node: Node, sizes: list[int | None]) -> bool:
    """LiteRT's own takes real numbers, as many as a power of two."""
    return node.op in ("RFFT", "RFFT2D") and not any(
        one is None or one & (one - 1) for one in sizes
    )


SPECTRA = spectra(by_tables, _native_transform, open_sizes=False)


def _absolute_values(node: Node, graph: Graph) -> Filling | None:
    """Those of a transform that LiteRT has are its own operator's, too."""
    maker = graph.makers[node.inputs[0]]
    kept = "FFT" in maker.op and filling(maker, graph, SPECTRA) is None
    return None if kept else absolute_values


GAPS: dict[str, Gap] = {
    **FILLINGS,
    "ComplexAbs": _absolute_values,
    **SPECTRA,
    **dict.fromkeys(
        ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan"), _elementary
    ),
    "AddV2": _one_bias,
    "AvgPool3D": partial(_pool_3d, pool="avg_pool2d"),
    "BatchToSpaceND": _dilated,
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "Invert"), _bits),
    "BiasAdd": _bias_in_front,
    "Erf": partial(_erf, complement=False),
    "Erfc": partial(_erf, complement=True),
    "MatMul": _outer,
    "Mul": _scaled_sum,
    **dict.fromkeys(("Log", "Log1p"), logarithm),
    "MaxPool3D": partial(_pool_3d, pool="max_pool2d"),
    "RealDiv": lambda node, graph: share(node, graph) or _quotient(node, graph),
    **dict.fromkeys(("Relu", "Relu6"), _kept_activation),
    "Softplus": lambda node, graph: softplus,  # the converter's own form is log(1 + exp(x))
    "StridedSlice": _new_axes,
}
